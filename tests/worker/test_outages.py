"""A store that is out of reach for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rowlock import App, NewJob, Status, StoreUnavailable
from rowlock.events import (
    AttemptStarted,
    ClaimRecovered,
    Ending,
    Event,
    OutcomeDropped,
    StoreAway,
    StoreBack,
)
from rowlock.testing import FakeClock
from tests.endings import ended, known, reached
from tests.eventually import eventually
from tests.holding import Hold

if TYPE_CHECKING:
    from rowlock._job import Outcome
    from rowlock._store import Settled


async def test_outcomes_arrive_after_an_outage_and_handlers_ran_once(
    app: App, told: list[Event], hold_writes: Hold
) -> None:
    gate = asyncio.Event()
    runs: list[int] = []

    @app.task
    async def wait(number: int) -> int:
        await gate.wait()
        runs.append(number)
        return number

    ids = await app.enqueue_many(wait.job(number=n) for n in range(5))
    async with app.worker():
        for job_id in ids:
            await reached(app, job_id, Status.RUNNING)
        async with hold_writes():
            gate.set()
            await asyncio.sleep(1.5)  # longer than the store's patience of a second
        jobs = [await ended(app, job_id) for job_id in ids]

    assert [job.result for job in jobs] == [0, 1, 2, 3, 4]
    assert [job.attempts for job in jobs] == [1] * 5
    assert sorted(runs) == [0, 1, 2, 3, 4]
    assert outages(told) == ["store.unavailable", "store.recovered"]


async def test_an_outage_is_told_once_however_many_loops_meet_it(
    app: App, told: list[Event], hold_writes: Hold
) -> None:
    @app.task
    async def greet() -> None: ...

    # So short a lease that renewals and recoveries meet it too, several times; and
    # reads, which succeed all the while, must not pass for the end of it.
    async with app.worker(lease=1):
        await ended(app, await greet.enqueue())
        async with hold_writes():
            await eventually(lambda: outages(told) != [])
            await asyncio.sleep(2.5)  # for each loop to meet it again
        await ended(app, await greet.enqueue())
        await eventually(lambda: len(outages(told)) > 1)

    assert outages(told) == ["store.unavailable", "store.recovered"]
    (back,) = [event for event in told if isinstance(event, StoreBack)]
    assert 2.5 < back.away_s < 10


async def test_an_app_closed_under_its_worker_is_opened_again(
    app: App, database_url: str, clock: FakeClock, told: list[Event]
) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait() -> None:
        await gate.wait()

    async with app.worker():
        job_id = await wait.enqueue()
        await reached(app, job_id, Status.RUNNING)
        # As a request's `async with app` does, or a handler that tidies up too much.
        await app.close()
        gate.set()
        async with App(database_url, clock=clock) as other:
            assert (await ended(other, job_id)).attempts == 1
            other.task(name="wait")(wait.function)
            later = await other.tasks["wait"].enqueue()
            assert (await ended(other, later)).status is Status.SUCCEEDED

    # Another loop of it may meet the close after the first is over it.
    story = outages(told)
    assert story
    assert story == ["store.unavailable", "store.recovered"] * (len(story) // 2)


async def test_an_outcome_is_dropped_when_its_lease_is_over_and_the_job_recovered(
    database_url: str, hold_writes: Hold
) -> None:
    told: list[Event] = []
    gate = asyncio.Event()
    runs = 0

    # The machine's own clock: leases must run out, and the grace of a store that was
    # away must pass.
    async with App(database_url) as app:
        app.listen(told.append)

        @app.task
        async def wait() -> None:
            nonlocal runs
            runs += 1
            await gate.wait()

        async with app.worker(lease=1):
            job_id = known(await wait.enqueue())
            # The handler has begun: a claim that nobody has heard of yet would go back.
            await eventually(lambda: runs == 1)
            async with hold_writes():
                gate.set()
                await eventually(lambda: kinds(told, OutcomeDropped) == 1, within=20)
            job = await ended(app, job_id, within=30)

    assert (job.status, job.attempts, job.losses, runs) == (Status.SUCCEEDED, 2, 1, 2)
    assert kinds(told, OutcomeDropped) == kinds(told, ClaimRecovered) == 1


async def test_a_stop_while_the_store_is_away_ends_in_its_time(
    app: App, told: list[Event], hold_writes: Hold
) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait() -> None:
        await gate.wait()

    worker = app.worker(shutdown_timeout=0.5)
    running = asyncio.create_task(worker.run())
    job_id = known(await wait.enqueue())
    await eventually(lambda: kinds(told, AttemptStarted) == 1)

    async with hold_writes():
        gate.set()
        worker.stop()
        # Beside its own time, a second of the store's patience, and one to say goodbye.
        async with asyncio.timeout(0.5 + 2 + 1):
            left = await running

    assert outages(told) == ["store.unavailable"]
    # Its outcome was written at the last moment, or else it is left to its lease.
    job = await app.get(job_id)
    assert job.status in (Status.RUNNING, Status.SUCCEEDED)
    assert (job.attempts, job.losses) == (1, 0)
    # So it is told, unless its last write went on after its time.
    assert left == kinds(told, OutcomeDropped)
    assert job.status is Status.SUCCEEDED or left == 1


def outages(told: list[Event]) -> list[str]:
    """Name what was told of the store being away, in order."""
    return [event.name for event in told if isinstance(event, StoreAway | StoreBack)]


def kinds(told: list[Event], kind: type[Event]) -> int:
    """Count the events of one kind."""
    return sum(isinstance(event, kind) for event in told)


@pytest.mark.parametrize("asleep", ["before its first try", "in a try", "between two"])
async def test_an_outcome_whose_lease_was_slept_over_is_tried_again(
    app: App, told: list[Event], monkeypatch: pytest.MonkeyPatch, asleep: str
) -> None:
    """The machine has slept: the first write that follows may still fail."""
    finish, tries = app._store.finish, list[int]()
    sleep = partial(time.sleep, 1.2)  # longer than the lease; it stops all that runs

    async def refuse(outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        tries.append(len(outcomes))
        if asleep == "in a try" and len(tries) == 1:
            sleep()
        if asleep == "between two" and len(tries) == 1:
            asyncio.get_running_loop().call_soon(sleep)
        if len(tries) <= 1 + (asleep == "between two"):
            raise StoreUnavailable
        return await finish(outcomes)

    monkeypatch.setattr(app._store, "finish", refuse)

    @app.task
    async def greet() -> None: ...

    def follow(_: Ending) -> Sequence[NewJob]:
        if asleep == "before its first try":
            sleep()
        return ()

    app.follow(follow)
    async with app.worker(lease=1):
        job = await ended(app, await greet.enqueue())

    assert len(tries) == 2 + (asleep == "between two")
    assert (job.status, job.attempts, job.losses) == (Status.SUCCEEDED, 1, 0)
    assert not [event for event in told if isinstance(event, OutcomeDropped)]


async def test_a_worker_that_is_stopped_in_an_outage_does_not_tell_of_its_end(
    app: App, told: list[Event], hold_writes: Hold
) -> None:
    @app.task
    async def greet() -> None: ...

    async with app.worker(lease=1, shutdown_timeout=2) as worker:
        await ended(app, await greet.enqueue())
        async with hold_writes():
            await eventually(lambda: outages(told) != [])
            worker.stop()
            await asyncio.sleep(1)  # for whatever might pass for an answer
            assert outages(told) == ["store.unavailable"]
