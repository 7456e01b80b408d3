"""In inline mode a job runs where it is enqueued."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import connect

import pytest

from rowlock import (
    App,
    NewJob,
    PayloadError,
    Retry,
    Snooze,
    Status,
    Unrecoverable,
    current_attempt,
)
from rowlock.events import Ending
from rowlock.testing import FakeClock, drain, drain_sync, inline


async def status_of(app: App, job_id: int | None) -> Status:
    return (await app.get(job_id or 0)).status


async def test_the_handler_has_run_when_the_enqueue_returns(app: App) -> None:
    seen: list[datetime] = []

    @app.task
    async def note(when: datetime) -> str:
        assert current_attempt().number == 1
        seen.append(when)
        return "noted"

    when = datetime(2026, 5, 1, tzinfo=UTC)
    with inline(app):
        job_id = await note.enqueue(when)

    assert seen == [when]
    job = await app.get(job_id or 0)
    assert (job.status, job.result) == (Status.SUCCEEDED, "noted")


async def test_arguments_go_through_the_codec(app: App) -> None:
    @app.task
    async def note(n: int) -> None: ...

    with inline(app), pytest.raises(PayloadError):
        await note.enqueue("one")  # type: ignore[arg-type]


async def test_what_the_handler_raises_the_enqueue_raises(app: App) -> None:
    @app.task
    def ship(n: int) -> None:
        if n:
            raise LookupError(n)

    with inline(app):
        with pytest.raises(LookupError) as raised:
            await ship.enqueue(1)
        # The one that failed waits for its next attempt, and is in nobody's way.
        assert await status_of(app, await ship.enqueue(0)) is Status.SUCCEEDED

    assert raised.value.__notes__
    assert (await app.stats()).queues[0].counts[Status.PENDING] == 1


async def test_an_older_job_that_is_due_is_left_alone(app: App) -> None:
    ran: list[int] = []

    @app.task
    async def note(n: int) -> None:
        ran.append(n)

    older = await note.options(priority=9).enqueue(1)
    with inline(app):
        await note.enqueue(2)

    assert ran == [2]
    job = await app.get(older or 0)
    assert (job.status, job.attempts) == (Status.PENDING, 0)


async def test_signals_steer_as_they_do_in_a_worker(app: App) -> None:
    @app.task
    async def steer(how: str) -> None:
        raise {
            "snooze": Snooze(60),
            "retry": Retry(delay=60),
            "dead": Unrecoverable("never"),
        }[how]

    with inline(app):
        assert await status_of(app, await steer.enqueue("snooze")) is Status.PENDING
        assert await status_of(app, await steer.enqueue("retry")) is Status.PENDING
        with pytest.raises(Unrecoverable):
            await steer.enqueue("dead")


async def test_a_job_for_later_waits_for_drain(app: App, clock: FakeClock) -> None:
    ran: list[str] = []

    @app.task
    async def note(n: str) -> None:
        ran.append(n)

    with inline(app):
        await note.options(delay=60).enqueue("later")
        await app.pause(queue="mail")
        await note.options(queue="mail").enqueue("paused")
    assert ran == []

    clock.advance(60)
    await drain(app)
    assert ran == ["later"]


async def test_what_comes_of_an_inline_job_is_run_too(app: App) -> None:
    ran: list[str] = []

    @app.task
    async def parent() -> None:
        await child.enqueue("enqueued")
        ran.append("parent")
        current_attempt().spawn(child.job("spawned"))

    @app.task
    def child(how: str) -> None:
        ran.append(how)
        if how == "enqueued":
            child.enqueue_sync("from a thread")

    def follow(ending: Ending) -> list[NewJob]:
        return [child.job("followed")] if ending.task == "parent" else []

    app.follow(follow)
    with inline(app):
        await parent.enqueue()

    assert ran == ["enqueued", "from a thread", "parent", "spawned", "followed"]


async def test_what_an_inner_job_raises_fails_it_alone_and_comes_out(app: App) -> None:
    @app.task
    async def parent() -> None:
        await child.enqueue(1)
        await child.enqueue(2)

    @app.task
    async def child(n: int) -> None:
        raise LookupError(n)

    with inline(app), pytest.raises(ExceptionGroup) as raised:
        await parent.enqueue()

    assert [str(error) for error in raised.value.exceptions] == ["1", "2"]
    statuses = {job.task: job.status for job in (await app.list()).jobs}
    assert statuses == {"parent": Status.SUCCEEDED, "child": Status.PENDING}


async def test_many_run_in_order_and_a_duplicate_does_not(app: App) -> None:
    ran: list[int] = []

    @app.task
    async def note(n: int) -> None:
        ran.append(n)

    await note.options(idempotency_key="held", delay=60).enqueue(0)
    held = note.options(idempotency_key="held")
    with inline(app):
        ids = await app.enqueue_many([note.job(1), held.job(2), note.job(3)])

    assert ran == [1, 3]
    assert ids[1] is None


async def test_enqueues_at_once_each_run_their_own(app: App) -> None:
    ran: list[int] = []

    @app.task
    async def note(n: int) -> None:
        await asyncio.sleep(0)
        ran.append(n)

    with inline(app):
        await asyncio.gather(*(note.enqueue(n) for n in range(8)))

    assert sorted(ran) == list(range(8))


@pytest.mark.parametrize("how", ["enqueue", "spawn"])
async def test_a_job_that_enqueues_itself_ends_in_an_error(app: App, how: str) -> None:
    @app.task
    async def again() -> None:
        if how == "enqueue":
            await again.enqueue()
        else:
            current_attempt().spawn(again.job())

    with inline(app), pytest.raises(AssertionError, match="enqueues itself"):
        await again.enqueue()


async def test_it_ends_with_its_block(app: App) -> None:
    @app.task
    async def note() -> None: ...

    with pytest.raises(LookupError), inline(app):
        raise LookupError

    assert await status_of(app, await note.enqueue()) is Status.PENDING


def test_a_job_on_a_lent_connection_waits_for_the_commit(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'shop.db'}")
    ran: list[int] = []

    @app.task
    def note() -> None:
        ran.append(1)

    app.open_sync()
    own = connect(tmp_path / "shop.db")
    with inline(app):
        note.options(connection=own).enqueue_sync()
        assert not ran
        own.commit()
        assert drain_sync(app).succeeded == 1
    own.close()
    app.close_sync()
