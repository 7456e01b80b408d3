"""Jobs that are cancelled while their handler runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from rowlock import App, Retry, Snooze, Status, current_attempt
from rowlock._store import Demand
from rowlock.events import (
    AttemptStuck,
    ClaimRecovered,
    Event,
    JobCancelled,
    JobEnqueued,
    JobEvent,
)
from rowlock.testing import FakeClock
from tests.endings import ended, known, reached
from tests.eventually import eventually

LEASE = 1


async def test_a_cancel_reaches_an_async_handler_and_its_result_is_dropped(
    app: App, told: list[Event]
) -> None:
    reasons: list[object] = []

    @app.task
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            reasons.append(current_attempt().cancelled.reason)
        return "tidied up"

    async with app.worker(lease=LEASE):
        job_id = known(await wait.enqueue())
        await reached(app, job_id, Status.RUNNING)
        (answer,) = await app.cancel(job_id, by="ada")
        assert (answer.done, answer.status) == (True, Status.RUNNING)
        job = await ended(app, job_id)

    assert reasons == ["cancel"]
    assert (job.status, job.result, job.failures) == (Status.CANCELLED, None, 0)
    assert job.cancel_requested_at is not None
    assert len([event for event in told if isinstance(event, JobCancelled)]) == 1


async def test_a_cancel_reaches_a_thread_by_its_signal(app: App) -> None:
    reasons: list[object] = []

    @app.task
    def watch() -> str:
        cancelled = current_attempt().cancelled
        cancelled.wait(30)
        reasons.append(cancelled.reason)
        return "stopped"

    async with app.worker(lease=LEASE):
        job_id = known(await watch.enqueue())
        await reached(app, job_id, Status.RUNNING)
        await app.cancel(job_id)
        job = await ended(app, job_id)

    assert reasons == ["cancel"]
    assert (job.status, job.result) == (Status.CANCELLED, None)


async def test_async_code_may_await_the_signal(app: App) -> None:
    seen: list[object] = []

    @app.task
    async def watch() -> None:
        async def tell() -> None:
            seen.append(await current_attempt().cancelled)

        telling = asyncio.ensure_future(tell())
        try:
            await asyncio.Event().wait()
        finally:
            await telling

    async with app.worker(lease=LEASE):
        job_id = known(await watch.enqueue())
        await reached(app, job_id, Status.RUNNING)
        await app.cancel(job_id)
        assert (await ended(app, job_id)).status is Status.CANCELLED

    assert seen == ["cancel"]


async def test_a_job_that_succeeds_before_it_hears_of_the_cancel_has_succeeded(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No look comes between the cancel and the end.
    monkeypatch.setattr("rowlock._worker.cancels.FIRST_AFTER_S", 60)
    gate = asyncio.Event()

    @app.task
    async def wait() -> str:
        await gate.wait()
        return "done"

    async with app.worker():
        job_id = known(await wait.enqueue())
        await reached(app, job_id, Status.RUNNING)
        await app.cancel(job_id)
        gate.set()
        job = await ended(app, job_id)

    assert (job.status, job.result) == (Status.SUCCEEDED, "done")


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_cancel_reaches_a_handler_within_a_second_whatever_the_lease(
    app: App, kind: str
) -> None:
    heard: list[float] = []

    @app.task
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            heard.append(time.monotonic())

    @app.task
    def watch() -> None:
        current_attempt().cancelled.wait(30)
        heard.append(time.monotonic())

    task = wait if kind == "async" else watch
    lateness: list[float] = []
    async with app.worker(lease=300):
        for _ in range(3):
            job_id = known(await task.enqueue())
            await reached(app, job_id, Status.RUNNING)
            asked_at = time.monotonic()
            await app.cancel(job_id)
            assert (await ended(app, job_id)).status is Status.CANCELLED
            lateness.append(heard.pop() - asked_at)

    assert min(lateness) < 1
    # A busy machine may be late once.
    assert sorted(lateness)[1] < 1.5


@pytest.mark.parametrize(
    "error", [ValueError, partial(Retry, delay=0), partial(Snooze, 0)]
)
async def test_law_21_a_cancelled_job_is_never_tried_again(
    app: App, error: Callable[[], Exception]
) -> None:
    gate = asyncio.Event()

    @app.task
    async def fail() -> None:
        await gate.wait()
        raise error()

    async with app.worker():
        job_id = known(await fail.enqueue())
        await reached(app, job_id, Status.RUNNING)
        await app.cancel(job_id)
        gate.set()
        job = await ended(app, job_id)

    assert (job.status, job.attempts) == (Status.CANCELLED, 1)


async def test_a_handler_that_ignores_a_cancel_frees_its_place(
    app: App, told: list[Event]
) -> None:
    gate = asyncio.Event()

    @app.task
    async def stay() -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    @app.task
    async def greet() -> None: ...

    async with app.worker(concurrency=1, lease=LEASE):
        job_id = known(await stay.enqueue())
        await reached(app, job_id, Status.RUNNING)
        await app.cancel(job_id)
        assert (await ended(app, job_id)).status is Status.CANCELLED
        await ended(app, await greet.enqueue())
        gate.set()

    (stuck,) = [event for event in told if isinstance(event, AttemptStuck)]
    assert (stuck.job_id, stuck.reason) == (job_id, "cancel")


async def test_a_thread_that_ignores_a_cancel_frees_its_place_at_its_timeout(
    app: App, told: list[Event]
) -> None:
    gate = threading.Event()

    @app.task(timeout=0.8)
    def stay() -> str | None:
        gate.wait(30)
        return current_attempt().cancelled.reason

    @app.task
    async def greet() -> None: ...

    async with app.worker(concurrency=1, lease=LEASE):
        job_id = known(await stay.enqueue())
        await reached(app, job_id, Status.RUNNING)
        await app.cancel(job_id)
        job = await ended(app, job_id)
        await ended(app, await greet.enqueue())
        gate.set()

    assert (job.status, job.losses) == (Status.CANCELLED, 0)
    (stuck,) = [event for event in told if isinstance(event, AttemptStuck)]
    assert stuck.job_id == job_id


async def test_the_cancel_of_a_job_whose_worker_is_lost_is_told(
    app: App, clock: FakeClock, told: list[Event]
) -> None:
    @app.task
    async def wait() -> None: ...

    job_id = known(await wait.enqueue())
    demand = Demand(total=1, tasks=frozenset({"wait"}))
    lease = timedelta(seconds=LEASE)
    await app._store.claim(demand, worker="dead", lease=lease)
    await app.cancel(job_id)

    async with app.worker(lease=LEASE):

        async def is_over() -> bool:
            # As fast as the renewals, so that the store never looks out of reach.
            clock.advance(0.02)
            return (await app.get(job_id)).status.is_final

        await eventually(is_over, within=20)

    assert (await app.get(job_id)).status is Status.CANCELLED
    kinds = [type(event) for event in told if isinstance(event, JobEvent)]
    assert kinds == [JobEnqueued, ClaimRecovered, JobCancelled]


async def test_a_cancelled_job_can_be_replayed(app: App, clock: FakeClock) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait() -> int:
        await gate.wait()
        return current_attempt().number

    async with app.worker(lease=LEASE):
        job_id = known(await wait.enqueue())
        await reached(app, job_id, Status.RUNNING)
        await app.cancel(job_id)
        assert (await ended(app, job_id)).status is Status.CANCELLED
        gate.set()
        clock.advance(1)
        (answer,) = await app.replay(job_id)
        assert answer.done
        job = await reached(app, job_id, Status.SUCCEEDED)

    assert (job.result, job.claims, job.cancel_requested_at) == (2, 2, None)


async def test_b76_a_job_that_was_cancelled_while_it_ran_ends_cancelled(
    app: App, told: list[Event]
) -> None:
    @app.task
    def obey() -> str:
        current_attempt().cancelled.wait(30)
        return "half done"

    async with app.worker():
        job_id = known(await obey.enqueue())
        await reached(app, job_id, Status.RUNNING)
        await app.cancel(job_id)
        job = await ended(app, job_id)

    assert (job.status, job.result) == (Status.CANCELLED, None)
    names = [event.name for event in told if isinstance(event, JobEvent)]
    assert names[-1] == "job.cancelled"
    assert "attempt.succeeded" not in names


async def test_b76_who_cancels_what_has_ended_is_told(app: App) -> None:
    @app.task
    async def greet() -> str:
        return "hello"

    async with app.worker():
        job_id = known(await greet.enqueue())
        await ended(app, job_id)
        (answer,) = await app.cancel(job_id)
        job = await app.get(job_id)

    assert (answer.done, answer.status) == (False, Status.SUCCEEDED)
    assert (job.status, job.result) == (Status.SUCCEEDED, "hello")
