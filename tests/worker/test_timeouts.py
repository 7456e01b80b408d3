"""Handlers that run longer than they may, and how they can be stopped."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

from rowlock import App, Status, current_attempt
from rowlock.events import AttemptFailed, AttemptStuck, ClaimRefused, Event
from tests.endings import ended, known, reached, rested
from tests.eventually import eventually


async def test_an_async_handler_is_cancelled_at_its_timeout_and_has_failed(
    app: App,
) -> None:
    reasons: list[object] = []

    @app.task(max_attempts=1, timeout=0.05)
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            reasons.append(current_attempt().cancelled.reason)

    async with app.worker():
        job = await ended(app, await hang.enqueue())

    assert (job.status, job.failures) == (Status.FAILED, 1)
    assert (
        job.last_error
        == "TimeoutError: the attempt ran longer than its timeout of 0.05 s"
    )
    assert reasons == ["timeout"]


async def test_the_jobs_own_timeout_comes_before_the_tasks_and_0_is_none(
    app: App,
) -> None:
    gate = asyncio.Event()

    @app.task(max_attempts=1, timeout=0.05)
    async def wait() -> None:
        await gate.wait()

    async with app.worker():
        endless = await wait.options(timeout=0).enqueue()
        short = await wait.options(timeout=timedelta(milliseconds=20)).enqueue()
        job = await ended(app, short)
        assert "timeout of 0.02 s" in str(job.last_error)
        await ended(app, await wait.enqueue())
        gate.set()
        assert (await ended(app, endless)).status is Status.SUCCEEDED


async def test_what_a_handler_returns_after_its_timeout_is_dropped(app: App) -> None:
    @app.task(max_attempts=1, timeout=0.05)
    async def shrug() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return "never"

    async with app.worker():
        job = await ended(app, await shrug.enqueue())

    assert (job.status, job.result) == (Status.FAILED, None)
    assert str(job.last_error).startswith("TimeoutError")


async def test_a_thread_past_its_timeout_frees_its_place_and_its_end_is_dropped(
    app: App, told: list[Event]
) -> None:
    gate, has_ended = threading.Event(), threading.Event()

    @app.task(max_attempts=1, timeout=0.05)
    def hang() -> str:
        attempt = current_attempt()
        gate.wait(30)
        has_ended.set()
        return str(attempt.cancelled.reason)

    @app.task
    def greet() -> None: ...

    async with app.worker(concurrency=1):
        job_id = await hang.enqueue()
        job = await ended(app, job_id)
        assert (job.status, job.result) == (Status.FAILED, None)
        # Its thread still runs, and the only place is free.
        await ended(app, await greet.enqueue())
        gate.set()
        await eventually(has_ended.is_set)
        await ended(app, await greet.enqueue())

    assert await app.get(known(job_id)) == job
    (stuck,) = [event for event in told if isinstance(event, AttemptStuck)]
    assert (stuck.job_id, stuck.reason) == (job_id, "timeout")
    assert not [event for event in told if isinstance(event, ClaimRefused)]


async def test_a_thread_is_told_of_its_timeout(app: App) -> None:
    reasons: list[object] = []

    @app.task(max_attempts=1, timeout=0.05)
    def watch() -> None:
        cancelled = current_attempt().cancelled
        cancelled.wait(30)
        reasons.append(cancelled.reason)

    async with app.worker():
        await ended(app, await watch.enqueue())
        await eventually(lambda: reasons == ["timeout"])


async def test_a_handler_that_swallows_its_cancellation_is_given_up(
    app: App, told: list[Event]
) -> None:
    gate = asyncio.Event()

    @app.task(max_attempts=1, timeout=0.05)
    async def stay() -> str:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    @app.task
    async def greet() -> None: ...

    async with app.worker(concurrency=1, lease=1):
        job_id = await stay.enqueue()
        job = await ended(app, job_id)
        await ended(app, await greet.enqueue())
        gate.set()
        await ended(app, await greet.enqueue())

    assert (job.status, job.losses, job.result) == (Status.FAILED, 0, None)
    assert await app.get(known(job_id)) == job
    (stuck,) = [event for event in told if isinstance(event, AttemptStuck)]
    assert (stuck.job_id, stuck.reason) == (job_id, "timeout")


async def test_a_handler_slow_to_stop_has_timed_out_before_its_lease_is_over(
    database_url: str,
) -> None:
    # The machine's own clock, as the lease must run out: past its timeout an attempt
    # isn't renewed.
    async with App(database_url) as app:

        @app.task(max_attempts=1, timeout=0.05)
        async def hang() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(2)  # twice the lease

        async with app.worker(lease=1):
            job = await ended(app, await hang.enqueue())

    assert (job.status, job.failures, job.losses) == (Status.FAILED, 1, 0)
    assert str(job.last_error).startswith("TimeoutError")


async def test_a_timeout_is_retried_like_any_failure(
    app: App, told: list[Event]
) -> None:
    @app.task(max_attempts=2, timeout=0.05, backoff=0)
    async def hang_once() -> None:
        if current_attempt().number == 1:
            await asyncio.Event().wait()

    async with app.worker():
        job = await ended(app, await hang_once.enqueue())

    assert (job.status, job.attempts, job.failures) == (Status.SUCCEEDED, 2, 1)
    (failed,) = [event for event in told if isinstance(event, AttemptFailed)]
    assert failed.error.startswith("TimeoutError: ")


async def test_an_attempt_that_ends_in_time_is_never_timed_out(app: App) -> None:
    @app.task(timeout=0.2)
    async def swift() -> None: ...

    gate = asyncio.Event()

    @app.task(timeout=0)
    async def wait() -> None:
        await gate.wait()

    async with app.worker():
        job_id = await swift.enqueue()
        await ended(app, job_id)
        waiting = await wait.enqueue()
        await reached(app, waiting, Status.RUNNING)
        await asyncio.sleep(0.3)  # past the timeout of the first
        gate.set()
        await ended(app, waiting)

    assert (await rested(app, job_id)).status is Status.SUCCEEDED
