"""Rows that somebody changed in the sqlite3 shell: at fault for themselves alone."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from rowlock import App, Filter, Status
from tests.endings import finished, known, once

# SQLite's own functions read 1,000 levels, Python's reader as deep as its stack.
DEEP = "'" + "[" * 1500 + "]" * 1500 + "'"
DEEPER = "'" + "[" * 300_000 + "]" * 300_000 + "'"

NOW = "strftime('%s', 'now') * 1000000"

# What is set, and how the job ends where its handler would succeed.
CHANGES = {
    "payload = '[1, 2]'": Status.FAILED,
    "payload = 'null'": Status.FAILED,
    "payload = '{'": Status.FAILED,
    "payload = ''": Status.FAILED,
    f"payload = {DEEPER}": Status.FAILED,
    f"""payload = '{{"number":' || {DEEP} || '}}'""": Status.FAILED,
    f"""payload = '{{"number":{"9" * 5000}}}'""": Status.FAILED,
    """payload = '{"number": 1e999999}'""": Status.FAILED,
    "task = 'nobodys'": Status.PENDING,
    **{
        f"{column} = {text}": Status.SUCCEEDED
        for column in ("backoff", "state", "progress", "errors", "meta")
        for text in ("'[]'", "'{}'", "'{'", "''", "'null'", "'1'", DEEP, DEEPER)
    },
    "errors = '[1, null]'": Status.SUCCEEDED,
    f"errors = '[{','.join('1' * 30)}]'": Status.SUCCEEDED,
    "result = '{'": Status.SUCCEEDED,
    "run_at = 0": Status.SUCCEEDED,
    "run_at = 9000000000000000000": Status.PENDING,
    "expires_at = 9000000000000000": Status.SUCCEEDED,
    "timeout = -1": Status.SUCCEEDED,
    "timeout = 9e999": Status.SUCCEEDED,
    "max_attempts = -5": Status.SUCCEEDED,
    "attempts = 99, failures = 99, losses = 99": Status.SUCCEEDED,
    "priority = 2147483647": Status.SUCCEEDED,
    "queue = ''": Status.SUCCEEDED,
    "idempotency_key = ''": Status.SUCCEEDED,
    f"status = 'cancelled', finished_at = {NOW}": Status.CANCELLED,
    f"status = 'succeeded', finished_at = {NOW}": Status.SUCCEEDED,
    "status = 'running', leased_until = 1": Status.SUCCEEDED,
}
REFUSED = [
    *("status = 'done'", "status = 'running'", "status = 'failed'"),
    # What a column of another kind would keep, whoever reads it then stops.
    *(
        f"{column} = datetime('now')"
        for column in ("run_at", "expires_at", "created_at", "updated_at", "started_at")
    ),
    *("timeout = '30s'", "max_attempts = 'x'", "failures = 'x'", "priority = 'high'"),
    *("queue = x'ff'", "task = x'61'", "payload = x'7b7d'", "worker = x'61'"),
    *("attempts = 1.5", "meta = x'7b7d'", "idempotency_key = x'6b'"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of this test."""
    return tmp_path / "jobs.db"


@pytest.fixture
async def app(path: Path) -> AsyncIterator[App]:
    """An app with two tasks on it."""
    app = App(f"sqlite:///{path}", lease=1)

    @app.task
    async def take(number: int) -> int:
        return number

    @app.task(max_attempts=1)
    async def fail(number: int) -> None:
        raise ValueError(number)

    async with app:
        yield app


def change(path: Path, job_id: int | None, what: str) -> None:
    with closing(sqlite3.connect(path, timeout=10)) as own:
        own.execute(f"UPDATE rowlock_rows SET {what} WHERE id = {known(job_id)}")  # noqa: S608 - ours
        own.commit()


async def test_a_row_changed_by_hand_stops_nobody_else(app: App, path: Path) -> None:
    take = app.find_task("take")
    odd = {what: known(await take.enqueue(number=1)) for what in CHANGES}
    others = await app.enqueue_many(take.job(number=n) for n in range(20))
    for what, job_id in odd.items():
        change(path, job_id, what)

    async with app.worker(concurrency=5):
        for what, ends in CHANGES.items():
            await once(app, odd[what], lambda job: job.status is ends, within=20)  # noqa: B023 - now
        others += await app.enqueue_many(take.job(number=n) for n in range(20))
        over = await finished(app, others)

        assert {(job.status, job.claims) for job in over} == {(Status.SUCCEEDED, 1)}
    # And who looks sees them all.
    assert len((await app.list(Filter(), limit=999)).jobs) == len(CHANGES) + 40
    assert (await app.stats()).queues


async def test_its_failure_is_written_too(app: App, path: Path) -> None:
    fail = app.find_task("fail")
    ending = [
        what
        for what, ends in CHANGES.items()
        if ends is Status.SUCCEEDED and not what.startswith(("status", "max_"))
    ]
    odd = [known(await fail.enqueue(number=1)) for _ in ending]
    for what, job_id in zip(ending, odd, strict=True):
        change(path, job_id, what)

    async with app.worker(concurrency=5):
        over = await finished(app, odd, within=20)

    assert {job.status for job in over} == {Status.FAILED}
    for job in over:
        # Where it is too deep to be read, it is shown as the text that stands there.
        assert "ValueError" in str(job.errors[-1])[-200:]


async def test_what_is_said_of_a_result_replaces_a_broken_meta(
    app: App, path: Path
) -> None:
    @app.task
    async def give() -> object:
        return object()

    odd = [known(await give.enqueue()) for _ in range(2)]
    for job_id, what in zip(odd, ("meta = '{'", f"meta = {DEEP}"), strict=True):
        change(path, job_id, what)

    async with app.worker():
        over = await finished(app, odd)

    assert [(job.status, list(job.meta)) for job in over] == [
        (Status.SUCCEEDED, ["result_error"])
    ] * 2


async def test_verbs_change_it_as_any_other(app: App, path: Path) -> None:
    odd = {what: known(await app.tasks["take"].enqueue(number=1)) for what in CHANGES}
    for what, job_id in odd.items():
        if not what.startswith("status"):
            change(path, job_id, what)

    ids = odd.values()

    answers = [
        await app.move(ids, priority=1),
        await app.cancel(ids),
        await app.replay(ids),
        await app.cancel(ids),
    ]
    told = [(await app.get(job_id)).errors for job_id in ids]
    answers.append(await app.delete(ids))

    assert {str(answer) for each in answers for answer in each} == {"done"}
    # Each noted its act; what is too deep to be read is shown as it stands.
    assert all("'event': 'replay'" in str(e) or "unreadable" in e[0] for e in told)


async def test_a_worker_that_is_lost_with_one_is_recovered(
    app: App, path: Path
) -> None:
    take = app.find_task("take")
    odd = [known(await take.enqueue(number=1)) for _ in CHANGES]
    for what, job_id in zip(CHANGES, odd, strict=True):
        change(path, job_id, what)
    with closing(sqlite3.connect(path, timeout=10)) as own:
        own.execute(
            "UPDATE rowlock_rows SET status = 'running', leased_until = 1,"
            " claims = claims + 1, attempts = 1, started_at = 1, worker = 'gone',"
            " failures = 0, losses = 0, max_attempts = 3, run_at = 1"
            " WHERE status = 'pending' AND task = 'take'"
        )
        own.commit()

    async with app.worker(concurrency=5):
        for what, job_id in zip(CHANGES, odd, strict=True):
            if CHANGES[what] is not Status.PENDING:
                await once(app, job_id, lambda job: job.status.is_final, within=20)


@pytest.mark.parametrize("what", REFUSED)
async def test_what_nothing_could_go_on_from_is_refused(
    app: App, path: Path, what: str
) -> None:
    job_id = await app.find_task("take").enqueue(number=1)

    with pytest.raises(sqlite3.IntegrityError):
        change(path, job_id, what)
