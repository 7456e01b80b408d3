"""A handler that was told to stop leaves by `cancelled.raise_if_set()`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from rowlock import App, Attempt, Status, Task, current_attempt
from rowlock.events import AttemptStarted, Event, SignalSwallowed
from rowlock.testing import drain
from tests.endings import ended, known, reached, rested
from tests.eventually import eventually

# What a handler is that sees the signal only between its steps.
KINDS = ("plain", "plain, surrounded", "async")


@pytest.fixture(params=KINDS)
def steps(app: App, request: pytest.FixtureRequest) -> Task[[], Any]:
    """A long handler of two steps, whose first one swallows whatever it can."""

    def between() -> None:
        try:
            current_attempt().cancelled.raise_if_set()
        except Exception:  # noqa: BLE001 - as users write it
            return

    if request.param == "async":

        @app.task(name="steps", max_attempts=1)
        async def steps_async() -> str:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            between()
            return "all steps done"

        return steps_async

    if request.param == "plain, surrounded":
        app.around(surrounded)

    @app.task(name="steps", max_attempts=1)
    def steps_plain() -> str:
        current_attempt().cancelled.wait(30)
        between()
        return "all steps done"

    return steps_plain


@contextlib.asynccontextmanager
async def surrounded(_attempt: Attempt) -> AsyncGenerator[None, None]:
    """Surround an attempt with nothing."""
    yield


async def test_at_a_shutdown_its_job_is_given_back_without_a_failure(
    app: App, steps: Task[[], Any], told: list[Event]
) -> None:
    worker = app.worker(shutdown_timeout=0.3)
    running = asyncio.create_task(worker.run())
    job_id = await steps.enqueue()
    # Running, its handler may not have started so far.
    await eventually(lambda: any(isinstance(e, AttemptStarted) for e in told))
    worker.stop()

    assert await running == 0
    job = await app.get(job_id)
    assert (job.status, job.result) == (Status.PENDING, None)
    assert (job.attempts, job.failures, job.losses, job.errors) == (1, 0, 0, ())
    assert job.run_at <= job.updated_at
    assert not [event for event in told if isinstance(event, SignalSwallowed)]


async def test_after_a_cancel_its_job_is_cancelled(
    app: App, steps: Task[[], Any]
) -> None:
    async with app.worker(lease=1):
        job_id = await steps.enqueue()
        await reached(app, job_id, Status.RUNNING)
        await app.cancel(job_id)
        job = await ended(app, job_id)

    assert (job.status, job.result, job.failures) == (Status.CANCELLED, None, 0)
    assert job.last_error is None


async def test_after_its_timeout_the_attempt_has_failed_as_one_that_timed_out(
    app: App, steps: Task[[], Any]
) -> None:
    async with app.worker():
        job = await ended(app, await steps.options(timeout=0.05).enqueue())

    assert (job.status, job.result, job.failures) == (Status.FAILED, None, 1)
    assert job.last_error == (
        "TimeoutError: the attempt ran longer than its timeout of 0.05 s"
    )


async def test_it_does_nothing_while_nobody_asks_to_stop(app: App) -> None:
    @app.task
    def step() -> str:
        current_attempt().cancelled.raise_if_set()
        return "done"

    job_id = await step.enqueue()
    await drain(app)

    assert (await app.get(job_id)).result == "done"


async def test_the_next_attempt_goes_on_from_the_checkpoint(app: App) -> None:
    waiting = threading.Event()
    copied: list[int] = []

    @app.task
    def copy() -> None:
        attempt = current_attempt()
        for page in range(attempt.state or 0, 4):
            attempt.cancelled.raise_if_set()
            copied.append(page)
            attempt.checkpoint_sync(page + 1)
            if page == 1:
                waiting.set()
                attempt.cancelled.wait(30)

    worker = app.worker(shutdown_timeout=0.3)
    running = asyncio.create_task(worker.run())
    job_id = await copy.enqueue()
    await asyncio.to_thread(waiting.wait, 10)
    worker.stop()
    assert await running == 0
    assert (await rested(app, job_id)).state == 2

    async with app.worker():
        job = await ended(app, job_id)

    assert (job.status, job.attempts, job.failures) == (Status.SUCCEEDED, 2, 0)
    assert copied == [0, 1, 2, 3]


async def hang() -> None:
    await asyncio.Event().wait()


async def test_b73_a_timeout_a_cancel_and_a_shutdown_end_differently(app: App) -> None:
    overdue = app.task(name="overdue", timeout=0.2, max_attempts=2, backoff=300)(hang)
    unwanted = app.task(name="unwanted")(hang)
    interrupted = app.task(name="interrupted", max_attempts=1)(hang)

    async with app.worker(shutdown_timeout=0.3):
        late = known(await overdue.enqueue())
        asked = known(await unwanted.enqueue())
        stopped = known(await interrupted.enqueue())
        await reached(app, asked, Status.RUNNING)
        await app.cancel(asked)
        cancelled = await ended(app, asked)

        async def has_failed() -> bool:
            return (await app.get(late)).failures == 1

        await eventually(has_failed)
        await reached(app, stopped, Status.RUNNING)

    timed_out, released = await app.get(late), await app.get(stopped)
    assert (timed_out.status, timed_out.failures) == (Status.PENDING, 1)
    assert str(timed_out.last_error).startswith("TimeoutError: ")
    assert timed_out.run_at > timed_out.updated_at
    assert (cancelled.status, cancelled.failures) == (Status.CANCELLED, 0)
    assert (released.status, released.failures) == (Status.PENDING, 0)
    assert (released.last_error, released.errors) == (None, ())


async def test_b73_a_handler_that_cancels_a_task_of_its_own_is_taken_for_none_of_them(
    app: App,
) -> None:
    @app.task
    async def tidy() -> str:
        child = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        child.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await child
        return "tidied"

    @app.task(max_attempts=1)
    async def careless() -> None:
        child = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        child.cancel()
        await child

    async with app.worker():
        tidied = await ended(app, await tidy.enqueue())
        failed = await ended(app, await careless.enqueue())

    assert (tidied.status, tidied.result) == (Status.SUCCEEDED, "tidied")
    # Nobody asked for it: a failure like any other, and no cancel.
    assert (failed.status, failed.failures) == (Status.FAILED, 1)
    assert str(failed.last_error).startswith("asyncio.exceptions.CancelledError")
