"""How a worker stops: what it waits for, gives back, and leaves behind."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

from rowlock import App, Status, current_attempt
from rowlock.events import (
    AttemptReleased,
    AttemptStarted,
    AttemptStuck,
    Event,
    WorkerDraining,
    WorkerStopped,
)
from rowlock.testing import FakeClock
from tests.endings import ended, known
from tests.eventually import eventually


async def test_a_stop_waits_for_what_runs(app: App, told: list[Event]) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait() -> str:
        await gate.wait()
        return "done"

    worker = app.worker(shutdown_timeout=30)
    running = asyncio.create_task(worker.run())
    job_id = await wait.enqueue()
    waiting = await wait.enqueue()
    await have_started(told, 2)
    worker.stop()
    unclaimed = await wait.enqueue()
    gate.set()

    assert await running == 0
    for finished in (job_id, waiting):
        job = await app.get(known(finished))
        assert (job.status, job.result, job.attempts) == (Status.SUCCEEDED, "done", 1)
    job = await app.get(known(unclaimed))
    assert (job.status, job.claims) == (Status.PENDING, 0)


async def test_an_idle_worker_stops_at_once(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    async with app.worker(shutdown_timeout=60):
        await ended(app, await greet.enqueue())
        began = time.monotonic()

    assert time.monotonic() - began < 2


async def test_an_async_handler_is_cancelled_after_two_thirds_and_released(
    app: App, told: list[Event]
) -> None:
    reasons: list[object] = []

    @app.task(max_attempts=1)
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            reasons.append(current_attempt().cancelled.reason)

    worker = app.worker(shutdown_timeout=0.9)
    running = asyncio.create_task(worker.run())
    job_id = known(await hang.enqueue())
    await have_started(told, 1)
    began = time.monotonic()
    worker.stop()

    assert await running == 0
    assert time.monotonic() - began >= 0.6
    job = await app.get(job_id)
    assert (job.status, job.failures, job.losses) == (Status.PENDING, 0, 0)
    assert (job.attempts, job.worker, job.errors) == (1, None, ())
    assert reasons == ["shutdown"]
    (released,) = [event for event in told if isinstance(event, AttemptReleased)]
    assert (released.job_id, released.reason) == (job_id, "shutdown")


async def test_a_released_job_starts_at_once_in_another_worker(
    app: App, told: list[Event]
) -> None:
    numbers: list[int] = []
    gate = asyncio.Event()

    @app.task
    async def wait() -> None:
        numbers.append(current_attempt().number)
        await gate.wait()

    first = app.worker(shutdown_timeout=0.3)
    running = asyncio.create_task(first.run())
    job_id = known(await wait.enqueue())
    await have_started(told, 1)

    async with app.worker():
        first.stop()
        assert await running == 0
        await eventually(lambda: numbers == [1, 2], within=1)
        gate.set()
        job = await ended(app, job_id)

    assert (job.status, job.attempts, job.failures) == (Status.SUCCEEDED, 2, 0)


async def test_a_handler_that_returns_when_it_is_cancelled_has_succeeded(
    app: App,
    told: list[Event],
) -> None:
    @app.task
    async def tidy() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "saved"
        return "never"

    worker = app.worker(shutdown_timeout=0.3)
    running = asyncio.create_task(worker.run())
    job_id = known(await tidy.enqueue())
    await have_started(told, 1)
    worker.stop()

    assert await running == 0
    job = await app.get(job_id)
    assert (job.status, job.result) == (Status.SUCCEEDED, "saved")


async def test_a_thread_that_sees_the_signal_and_raises_is_released(
    app: App, told: list[Event]
) -> None:
    class Stopped(Exception):
        pass

    @app.task(max_attempts=1)
    def watch() -> None:
        if current_attempt().cancelled.wait(30):
            raise Stopped

    worker = app.worker(shutdown_timeout=0.3)
    running = asyncio.create_task(worker.run())
    job_id = known(await watch.enqueue())
    await have_started(told, 1)
    worker.stop()

    assert await running == 0
    job = await app.get(job_id)
    assert (job.status, job.failures, job.errors) == (Status.PENDING, 0, ())


async def test_what_cant_be_stopped_is_abandoned_marked_and_counted(
    app: App, clock: FakeClock, told: list[Event]
) -> None:
    gate, stay_on = threading.Event(), asyncio.Event()

    @app.task
    def block() -> None:
        gate.wait(30)

    @app.task
    async def swallow() -> None:
        while not stay_on.is_set():
            try:
                await stay_on.wait()
            except asyncio.CancelledError:
                continue

    worker = app.worker(shutdown_timeout=0.6)
    running = asyncio.create_task(worker.run())
    ids = [known(await task.enqueue()) for task in (block, swallow)]
    await have_started(told, 2)
    clock.advance(100)
    worker.stop()

    assert await running == 2
    # Nobody records how they end.
    gate.set()
    stay_on.set()
    held = await app._store.lost(10, worker=worker.id)
    assert [(claim.job_id, claim.abandoned) for claim in held] == [
        (job_id, True) for job_id in ids
    ]
    in_a_lease = clock.now() + timedelta(seconds=300)
    assert [claim.leased_until for claim in held] == [in_a_lease] * 2
    (draining,) = [event for event in told if isinstance(event, WorkerDraining)]
    assert draining.running == 2
    assert told[-1] == WorkerStopped(worker=worker.id, abandoned=2)


async def test_an_abandoned_claim_is_recovered_without_a_loss(
    app: App, told: list[Event], clock: FakeClock
) -> None:
    gate = threading.Event()
    numbers: list[int] = []

    @app.task
    def block() -> None:
        numbers.append(current_attempt().number)
        if len(numbers) == 1:
            gate.wait(30)

    worker = app.worker(shutdown_timeout=0.3, lease=1)
    running = asyncio.create_task(worker.run())
    job_id = known(await block.enqueue())
    await have_started(told, 1)
    worker.stop()
    assert await running == 1
    (stuck,) = [event for event in told if isinstance(event, AttemptStuck)]
    assert (stuck.job_id, stuck.attempt, stuck.reason) == (job_id, 1, "shutdown")

    async with app.worker(lease=1):

        async def is_over() -> bool:
            # As fast as the renewals, so that the store never looks out of reach.
            clock.advance(0.02)
            return (await app.get(job_id)).status.is_final

        await eventually(is_over, within=20)
        job = await app.get(job_id)
        gate.set()

    assert (job.status, job.losses, job.failures) == (Status.SUCCEEDED, 0, 0)
    assert numbers == [1, 2]
    assert job.errors[-1]["type"] == "WorkerLost"


async def have_started(told: list[Event], count: int) -> None:
    """Wait until so many handlers were started; running, a job may not be so far."""

    def are_there() -> bool:
        return sum(isinstance(event, AttemptStarted) for event in told) == count

    await eventually(are_there)
