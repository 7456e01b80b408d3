"""How a worker stops: what it waits for, gives back, and leaves behind."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

import pytest

from rowlock import App, Status, UsageError, current_attempt
from rowlock.events import (
    AttemptAbandoned,
    AttemptReleased,
    AttemptStarted,
    Event,
    WorkerCancelling,
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
    (cancelling,) = [event for event in told if isinstance(event, WorkerCancelling)]
    assert (cancelling.ended, cancelling.handlers, cancelling.kept) == (0, 2, 0)
    assert isinstance(stopped := told[-1], WorkerStopped)
    assert stopped.abandoned == 2


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
    (left,) = [event for event in told if isinstance(event, AttemptAbandoned)]
    assert (left.job_id, left.attempt, left.reason) == (job_id, 1, "shutdown")

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


async def test_a_handler_that_is_to_be_kept_is_neither_told_nor_cancelled(
    app: App, told: list[Event]
) -> None:
    gate, gate_of_thread = asyncio.Event(), threading.Event()
    reasons: list[object] = []

    @app.task(on_shutdown="keep")
    async def charge() -> str:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            return "cancelled"
        reasons.append(current_attempt().cancelled.reason)
        return "charged"

    @app.task(on_shutdown="keep")
    def charge_in_thread() -> str:
        gate_of_thread.wait(30)
        return str(current_attempt().cancelled.reason)

    worker = app.worker(shutdown_timeout=1.5)
    running = asyncio.create_task(worker.run())
    ends, stays = await charge.enqueue(), await charge_in_thread.enqueue()
    await have_started(told, 2)
    worker.stop()
    # After the wait, and before the end.
    await eventually(lambda: any(isinstance(e, WorkerCancelling) for e in told))
    gate.set()

    assert await running == 1
    job = await app.get(ends)
    assert (job.status, job.result, reasons) == (Status.SUCCEEDED, "charged", [None])
    (held,) = await app._store.lost(10, worker=worker.id)
    assert (held.job_id, held.abandoned) == (stays, True)
    (cancelling,) = [event for event in told if isinstance(event, WorkerCancelling)]
    assert (cancelling.handlers, cancelling.kept) == (0, 2)
    (left,) = [event for event in told if isinstance(event, AttemptAbandoned)]
    assert (left.job_id, left.reason) == (stays, "keep")
    gate_of_thread.set()


@pytest.mark.parametrize("how", ["async with", "run"])
async def test_a_worker_whose_surrounding_task_is_cancelled_drains(
    app: App, told: list[Event], how: str
) -> None:
    @app.task
    async def hang() -> None:
        await asyncio.Event().wait()

    @app.task
    async def soon() -> str:
        await asyncio.sleep(0.2)  # it ends within the wait
        return "done"

    worker = app.worker(shutdown_timeout=0.9)

    async def serve() -> None:
        if how == "run":
            await worker.run()
        async with worker:
            await asyncio.Event().wait()

    serving = asyncio.create_task(serve())
    hanging, ending = await hang.enqueue(), await soon.enqueue()
    await have_started(told, 2)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving

    job = await app.get(hanging)
    assert (job.status, job.failures, job.losses) == (Status.PENDING, 0, 0)
    assert (await app.get(ending)).result == "done"
    assert isinstance(told[-1], WorkerStopped)


async def test_a_worker_that_is_still_starting_has_nothing_to_abandon(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    worker = app.worker()
    running = asyncio.create_task(worker.run())
    for _ in range(2):
        await asyncio.sleep(0)  # lets it begin to start, which may import much
    assert worker._is_used
    assert not worker._is_started
    worker._abandon()
    worker.stop()

    assert await running == 0


def test_what_on_shutdown_may_say_is_checked_at_the_door() -> None:
    with pytest.raises(UsageError, match="'release' or 'keep', not 'wait'"):
        App("sqlite://").task(on_shutdown="wait")  # type: ignore[call-overload]


async def have_started(told: list[Event], count: int) -> None:
    """Wait until so many handlers were started; running, a job may not be so far."""

    def are_there() -> bool:
        return sum(isinstance(event, AttemptStarted) for event in told) == count

    await eventually(are_there)
