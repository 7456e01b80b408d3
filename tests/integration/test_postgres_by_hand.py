"""Rows that somebody changed in psql: refused there, or at fault for themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from rowlock import App, Filter, Status
from tests.endings import finished, known, once

DEEP = "repeat('[', 3000) || repeat(']', 3000)"

# What is set, and how the job ends where its handler would succeed.
CHANGES = {
    "payload = '[1, 2]'": Status.FAILED,
    "payload = 'null'": Status.FAILED,
    f"""payload = ('{{"number":' || {DEEP} || '}}')::json""": Status.FAILED,
    """payload = ('{"number":' || repeat('9', 5000) || '}')::json""": Status.FAILED,
    """payload = '{"number": 1e999999}'""": Status.FAILED,
    "task = 'nobodys'": Status.PENDING,
    "backoff = '[]'": Status.SUCCEEDED,
    f"backoff = ({DEEP})::json": Status.SUCCEEDED,
    f"state = ({DEEP})::json": Status.SUCCEEDED,
    f"progress = ({DEEP})::json": Status.SUCCEEDED,
    "errors = '[1, null]'": Status.SUCCEEDED,
    "run_at = '-infinity'": Status.SUCCEEDED,
    "run_at = '0044-03-15 BC'": Status.SUCCEEDED,
    "run_at = 'infinity'": Status.PENDING,
    "created_at = '-infinity'": Status.SUCCEEDED,
    "updated_at = 'infinity'": Status.SUCCEEDED,
    "expires_at = 'infinity'": Status.SUCCEEDED,
    "timeout = 'Infinity'": Status.SUCCEEDED,
    "timeout = 'NaN'": Status.SUCCEEDED,
    "timeout = -1": Status.SUCCEEDED,
    "max_attempts = -5": Status.SUCCEEDED,
    "attempts = 99, failures = 99, losses = 99": Status.SUCCEEDED,
    "priority = 2147483647": Status.SUCCEEDED,
    "queue = ''": Status.SUCCEEDED,
    "idempotency_key = ''": Status.SUCCEEDED,
    "status = 'cancelled', finished_at = now()": Status.CANCELLED,
    "status = 'succeeded', finished_at = now()": Status.SUCCEEDED,
    "status = 'running', leased_until = now()": Status.SUCCEEDED,
}
REFUSED = [
    "errors = '{}'",
    "errors = 'null'",
    "meta = '[]'",
    "attempts = 2147483647",
    "claims = 2147483647",
    "failures = 2147483647",
    "started_at = 'infinity'",
    "status = 'succeeded', finished_at = 'infinity'",
    "status = 'cancelled', finished_at = '-infinity'",
    "status = 'done'",
    "status = 'running'",
    "status = 'failed'",
]


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    """An app with two tasks on it."""
    app = App(url, lease=1)

    @app.task
    async def take(number: int) -> int:
        return number

    @app.task(max_attempts=1)
    async def fail(number: int) -> None:
        raise ValueError(number)

    async with app:
        yield app


def change(url: str, job_id: int | None, what: str) -> None:
    with psycopg.connect(url) as own:
        statement = f"UPDATE rowlock.live SET {what} WHERE id = {known(job_id)}"  # noqa: S608 - ours
        own.execute(statement.encode())


async def test_a_row_changed_by_hand_stops_nobody_else(app: App, url: str) -> None:
    take = app.find_task("take")
    odd = {what: known(await take.enqueue(number=1)) for what in CHANGES}
    others = await app.enqueue_many(take.job(number=n) for n in range(20))
    for what, job_id in odd.items():
        change(url, job_id, what)

    async with app.worker(concurrency=5):
        for what, ends in CHANGES.items():
            await once(app, odd[what], lambda job: job.status is ends, within=20)  # noqa: B023 - now
        others += await app.enqueue_many(take.job(number=n) for n in range(20))
        over = await finished(app, others)

        assert {(job.status, job.claims) for job in over} == {(Status.SUCCEEDED, 1)}
    # And who looks sees them all.
    assert len((await app.list(Filter(), limit=999)).jobs) == len(CHANGES) + 40
    assert (await app.stats()).queues


async def test_its_failure_is_written_too(app: App, url: str) -> None:
    fail = app.find_task("fail")
    ending = [
        what
        for what, ends in CHANGES.items()
        if ends is Status.SUCCEEDED and not what.startswith(("status", "max_"))
    ]
    odd = [known(await fail.enqueue(number=1)) for _ in ending]
    for what, job_id in zip(ending, odd, strict=True):
        change(url, job_id, what)

    async with app.worker(concurrency=5):
        over = await finished(app, odd, within=20)

    assert {job.status for job in over} == {Status.FAILED}


async def test_a_worker_that_is_lost_with_one_is_recovered(app: App, url: str) -> None:
    take = app.find_task("take")
    odd = [known(await take.enqueue(number=1)) for _ in CHANGES]
    for what, job_id in zip(CHANGES, odd, strict=True):
        change(url, job_id, what)
    with psycopg.connect(url) as own:
        own.execute(
            "UPDATE rowlock.live SET status = 'running', leased_until = now(),"
            " claims = claims + 1, attempts = 1, started_at = now(), worker = 'gone',"
            " failures = 0, losses = 0, max_attempts = 3, run_at = now()"
            " WHERE status = 'pending' AND task = 'take'"
        )

    async with app.worker(concurrency=5):
        for what, job_id in zip(CHANGES, odd, strict=True):
            if what != "task = 'nobodys'":
                await once(app, job_id, lambda job: job.status.is_final, within=20)


@pytest.mark.parametrize("what", REFUSED)
async def test_what_nothing_could_go_on_from_is_refused(
    app: App, url: str, what: str
) -> None:
    job_id = await app.find_task("take").enqueue(number=1)

    with pytest.raises(psycopg.errors.CheckViolation):
        change(url, job_id, what)
