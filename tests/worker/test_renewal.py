"""Leases that are extended while handlers run, whatever these do to the loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from rowlock import App, Status, StoreUnavailable, _outcome, current_attempt
from rowlock._worker.buffer import Buffer
from rowlock._worker.renew import Renew
from rowlock._worker.runs import Runs
from rowlock._worker.watch import Watch
from rowlock.events import ClaimLapsed, ClaimRefused, Event
from rowlock.testing import FakeClock
from tests.endings import ended, known, reached
from tests.eventually import eventually
from tests.holding import Hold


async def test_b68_a_handler_that_blocks_the_loop_for_three_leases_runs_once(
    database_url: str,
) -> None:
    runs: list[str] = []

    def register(app: App, label: str) -> None:
        @app.task
        async def block() -> str:
            runs.append(label)
            time.sleep(3.2)  # noqa: ASYNC251 - blocks the loop for more than three leases
            return label

    # The machine's own clock, as the lease must run out if nobody renews it.
    async with App(database_url) as app:
        register(app, "blocked")
        async with app.worker(lease=1):
            job_id = known(await app.find_task("block").enqueue())
            with another_worker(database_url, register):
                job = await ended(app, job_id)

    # Whichever of the two had it first.
    assert runs == [job.result]
    assert (job.status, job.attempts, job.losses) == (Status.SUCCEEDED, 1, 0)


async def test_the_lease_of_a_running_job_is_extended_from_the_stores_now(
    app: App, clock: FakeClock
) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait() -> None:
        await gate.wait()

    async with app.worker(lease=1):
        job_id = known(await wait.enqueue())
        await reached(app, job_id, Status.RUNNING)
        clock.advance(0.9)

        async def is_extended() -> bool:
            job = await app.get(job_id)
            return job.leased_until == clock.now() + timedelta(seconds=1)

        await eventually(is_extended)
        gate.set()
        await ended(app, job_id)


async def test_a_handler_whose_claim_is_lost_is_told_and_records_nothing(
    app: App, told: list[Event]
) -> None:
    reasons: list[object] = []
    gate = asyncio.Event()

    @app.task
    async def wait() -> str:
        attempt = current_attempt()
        try:
            await gate.wait()
        finally:
            reasons.append(attempt.cancelled.reason)
        return f"attempt {attempt.number}"

    async with app.worker(lease=1):
        job_id = known(await wait.enqueue())
        job = await reached(app, job_id, Status.RUNNING)
        # As another worker does that has found the lease run out.
        held = await app._store.lost(10, worker=str(job.worker))
        (settled,) = await app._store.finish([_outcome.lost(held[0])])
        assert settled.accepted
        await eventually(lambda: reasons == ["lost"])
        gate.set()
        job = await ended(app, job_id)

    assert (job.result, job.losses) == ("attempt 2", 1)
    assert reasons == ["lost", None]
    (lapsed,) = [event for event in told if isinstance(event, ClaimLapsed)]
    assert (lapsed.job_id, lapsed.claim) == (job_id, 1)
    (refused,) = [event for event in told if isinstance(event, ClaimRefused)]
    assert (refused.job_id, refused.claim) == (job_id, 1)


@pytest.mark.parametrize("broken", ["a thread", "a loop"])
async def test_a_worker_whose_renewal_cant_start_says_so_and_claims_nothing(
    app: App, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    @app.task
    async def greet() -> None: ...

    def fail(*_: object) -> None:
        msg = "there is none left"
        raise RuntimeError(msg) if broken == "a thread" else OSError(msg)

    job_id = await greet.enqueue()
    with monkeypatch.context() as machine:
        if broken == "a thread":
            machine.setattr(threading.Thread, "start", fail)
        else:
            machine.setattr(asyncio, "new_event_loop", fail)
        with pytest.raises(StoreUnavailable, match=r"can't start \(there is none left"):
            async with asyncio.timeout(10), app.worker():
                pass
    assert (await app.get(known(job_id))).claims == 0

    async with app.worker():
        await ended(app, job_id)


async def test_a_renewal_that_nobody_waits_for_any_more_ends_no_thread(
    app: App, hold_writes: Hold
) -> None:
    watch = Watch()
    settings = app.worker(lease=1)._settings
    runs = Runs(on_room=lambda _: None, on_stuck=lambda: None, max_stuck=1)
    renew = Renew(
        settings,
        runs,
        Buffer(settings, runs, blocked_s=lambda: 0),
        watch,
        on_renewal=lambda _: None,
        on_error=lambda _: None,
    )
    watch.start([renew.turn])
    async with hold_writes():
        waiting = asyncio.create_task(renew.now())
        await asyncio.sleep(0)  # until it has asked
        waiting.cancel()
        await asyncio.wait({waiting})

    async with asyncio.timeout(5):
        await renew.now()
    assert watch.is_live
    await watch.stop()
    assert not watch.is_live


@contextmanager
def another_worker(url: str, register: Callable[[App, str], None]) -> Iterator[None]:
    """Run a worker on a loop and a thread of its own, beside the one of the test."""
    is_over = threading.Event()

    async def work() -> None:
        async with App(url) as app:
            register(app, "beside")
            async with app.worker(lease=1):
                await asyncio.to_thread(is_over.wait)

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
