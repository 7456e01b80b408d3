"""Handlers that block the event loop: what is seen of it, and what goes on."""

from __future__ import annotations

import asyncio
import threading
import time

from rowlock import App, Status, current_attempt
from rowlock.events import (
    AttemptFailed,
    AttemptStuck,
    ClaimRefused,
    Event,
    LoopBlocked,
    LoopFreed,
)
from tests.endings import ended, known
from tests.eventually import eventually

BLOCK_S = 1.2


def block(seconds: float = BLOCK_S) -> None:
    time.sleep(seconds)  # what is tested is a loop that doesn't turn


async def test_b68_what_blocks_the_loop_is_named_while_it_does_and_afterwards(
    app: App, told: list[Event]
) -> None:
    told_meanwhile: list[LoopBlocked] = []

    @app.task
    async def resize() -> str:
        block()
        told_meanwhile.extend(e for e in told if isinstance(e, LoopBlocked))
        return "resized"

    async with app.worker(blocked_after=0.2) as worker:
        job_id = known(await resize.enqueue())
        job = await ended(app, job_id)
        assert worker.health().loop_blocks == 1

    assert (job.result, job.attempts) == ("resized", 1)
    (blocked,) = told_meanwhile
    assert (blocked.job_id, blocked.task) == (job_id, "resize")
    assert 0.2 <= blocked.blocked_s < BLOCK_S
    innermost, handler = blocked.stack
    assert innermost.endswith(":block")
    assert handler.endswith(":resize")
    (freed,) = [event for event in told if isinstance(event, LoopFreed)]
    assert (freed.job_id, freed.task) == (job_id, "resize")
    # It may have been asked a moment before the block began.
    assert freed.blocked_s > BLOCK_S / 2


async def test_a_loop_that_is_only_busy_for_a_moment_is_not_blocked(
    app: App, told: list[Event]
) -> None:
    @app.task
    async def work() -> None:
        for _ in range(10):
            block(0.05)
            await asyncio.sleep(0)

    async with app.worker(blocked_after=0.4):
        await ended(app, await work.enqueue())

    assert not [event for event in told if isinstance(event, LoopBlocked)]


async def test_b69_a_timeout_is_written_while_the_loop_is_blocked(
    app: App, told: list[Event]
) -> None:
    failed_meanwhile: list[AttemptFailed] = []
    reasons: list[object] = []

    @app.task(max_attempts=1, timeout=0.1)
    async def crunch() -> str:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not failed_meanwhile:
            block(0.01)
            failed_meanwhile.extend(e for e in told if isinstance(e, AttemptFailed))
        # Even here the signal is seen.
        reasons.append(current_attempt().cancelled.reason)
        return "late"

    async with app.worker(blocked_after=0.2):
        job = await ended(app, await crunch.enqueue())

    assert (job.status, job.failures, job.result) == (Status.FAILED, 1, None)
    assert str(job.last_error).startswith("TimeoutError: ")
    assert len([event for event in told if isinstance(event, AttemptFailed)]) == 1
    assert reasons == ["timeout"]
    assert not [event for event in told if isinstance(event, ClaimRefused)]


async def test_b69_an_attempt_that_blocked_past_its_timeout_is_judged_at_its_return(
    app: App,
) -> None:
    @app.task(max_attempts=1, timeout=0.1)
    async def crunch() -> str:
        block(0.3)
        return "late"

    # Nobody looks so soon whether the loop turns.
    async with app.worker(blocked_after=60):
        job = await ended(app, await crunch.enqueue())

    assert (job.status, job.result) == (Status.FAILED, None)
    assert str(job.last_error).startswith("TimeoutError: ")


async def test_b69_a_plain_handler_that_ended_in_time_is_not_timed_out_beside_a_block(
    app: App, told: list[Event]
) -> None:
    blocks = threading.Event()

    @app.task
    async def crunch() -> None:
        blocks.set()
        block(2)

    @app.task(timeout=1, max_attempts=1)
    def greet() -> str:
        blocks.wait(10)
        return "hello"

    # Both are started in one turn of the loop, which hears of the one after the other.
    await crunch.enqueue()
    job_id = await greet.enqueue()
    async with app.worker(blocked_after=0.2):
        job = await ended(app, job_id)

    assert (job.status, job.result) == (Status.SUCCEEDED, "hello")
    assert not [event for event in told if isinstance(event, ClaimRefused)]


async def test_b69_quick_jobs_start_at_once_beside_a_plain_handler_that_blocks(
    app: App,
) -> None:
    waits: list[float] = []

    @app.task(timeout=1, max_attempts=1)
    def hang() -> None:
        block(3)

    @app.task
    async def quick(since: float) -> None:
        waits.append(time.monotonic() - since)

    async with app.worker(concurrency=5):
        hanging = await hang.enqueue()
        ids = [await quick.enqueue(time.monotonic()) for _ in range(50)]
        for job_id in ids:
            await ended(app, job_id)
        job = await ended(app, hanging)

    assert len(waits) == 50
    assert sorted(waits)[25] < 0.3
    assert str(job.last_error).startswith("TimeoutError: ")


async def test_what_was_timed_out_by_the_watchdog_is_cancelled_once_the_loop_turns(
    app: App, told: list[Event]
) -> None:
    cancelled: list[int] = []

    @app.task(max_attempts=1, timeout=0.1)
    async def crunch() -> None:
        block()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(current_attempt().job_id)
            raise

    @app.task
    async def greet() -> None: ...

    async with app.worker(concurrency=1, blocked_after=0.2):
        job_id = known(await crunch.enqueue())
        await ended(app, job_id)
        await eventually(lambda: cancelled == [job_id])
        # Its place is free again.
        await ended(app, await greet.enqueue())

    assert not [event for event in told if isinstance(event, AttemptStuck)]
    assert not [event for event in told if isinstance(event, ClaimRefused)]
