"""What becomes of a job by how its handler ends."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta

import pytest

from rowlock import (
    App,
    Backoff,
    Filter,
    Retry,
    RowlockError,
    Snooze,
    Status,
    StoreUnavailable,
    Unrecoverable,
    current_attempt,
)
from rowlock.stores.postgres.errors import Forbidden, Locked
from rowlock.testing import FakeClock
from tests.endings import ended, known, rested


async def test_a_result_is_kept_as_json(app: App) -> None:
    @app.task
    async def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @app.task
    def add_in_thread(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    async with app.worker():
        for task in (add, add_in_thread):
            job = await ended(app, await task.enqueue(a=1, b=2))
            assert job.status is Status.SUCCEEDED
            assert job.result == {"sum": 3}
            assert job.errors == ()


async def test_a_handler_that_only_returns_what_is_to_be_run_has_failed(
    app: App,
) -> None:
    began: list[str] = []

    def logged(function: Callable[[], object]) -> Callable[[], object]:
        @functools.wraps(function)
        def wrapper() -> object:
            return function()

        return wrapper

    @app.task(max_attempts=1)
    @logged
    async def decorated() -> None:
        began.append("decorated")

    @app.task(max_attempts=1)
    @logged
    def generated() -> Iterator[int]:
        began.append("generated")
        yield 1

    @app.task(max_attempts=1)
    async def forgets_await() -> object:
        return asyncio.sleep(0)

    async with app.worker():
        for task, kind in (
            (decorated, "coroutine"),
            (generated, "generator"),
            (forgets_await, "coroutine"),
        ):
            job = await ended(app, await task.enqueue())
            assert job.status is Status.FAILED
            assert str(job.last_error).startswith(
                f"TypeError: the handler returned a {kind}, which nobody runs"
            )

    assert began == []


async def test_retries_are_due_after_2_then_4_then_8_seconds(
    app: App, clock: FakeClock
) -> None:
    @app.task(max_attempts=4, backoff=Backoff.exponential(2, factor=2, jitter=0))
    async def fail() -> None:
        raise ValueError

    job_id = await fail.enqueue()
    async with app.worker():
        for failures, delay in enumerate((2, 4, 8), start=1):
            failed_at = clock.now()
            job = await rested(app, job_id, after=failures)
            assert job.run_at == failed_at + timedelta(seconds=delay)
            clock.advance(delay)
        job = await ended(app, job_id)

    assert (job.status, job.failures, job.attempts) == (Status.FAILED, 4, 4)


async def test_a_failure_says_type_message_and_where(app: App) -> None:
    @app.task(max_attempts=1)
    async def fail() -> None:
        msg = "out of stock"
        raise LookupError(msg)

    async with app.worker():
        job = await ended(app, await fail.enqueue())

    (error,) = job.errors
    assert job.last_error == "LookupError: out of stock"
    assert error["type"] == "LookupError"
    assert error["message"] == "out of stock"
    assert error["attempt"] == 1
    assert "raise LookupError(msg)" in str(error["traceback"])
    assert "_worker" not in str(error["traceback"])


class OutOfStock(RowlockError):
    """A user's own."""


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (Locked("it is locked"), "StoreUnavailable"),
        (Forbidden("not yours"), "StoreError"),
        (StoreUnavailable("gone"), "StoreUnavailable"),
        (OutOfStock("no lamp"), "tests.worker.test_outcomes.OutOfStock"),
    ],
)
async def test_an_error_of_ours_has_the_name_that_users_catch(
    app: App, error: Exception, name: str
) -> None:
    @app.task(max_attempts=1)
    async def fail() -> None:
        raise error

    async with app.worker():
        job_id = await fail.enqueue()
        job = await ended(app, job_id)

    assert job.errors[0]["type"] == name
    assert job.last_error == f"{name}: {error}"
    found = await app.list(Filter(error_type=name))
    assert [each.id for each in found.jobs] == [job_id]


async def test_retry_sets_its_own_delay_and_counts_as_a_failure(
    app: App, clock: FakeClock
) -> None:
    @app.task(max_attempts=2, backoff=1)
    async def later() -> None:
        raise Retry(delay=600)

    job_id = await later.enqueue()
    async with app.worker():
        job = await rested(app, job_id)
        assert job.run_at == clock.now() + timedelta(seconds=600)
        clock.advance(600)
        job = await ended(app, job_id)

    assert (job.status, job.failures) == (Status.FAILED, 2)


async def test_a_snooze_is_no_failure_and_the_next_attempt_has_the_next_number(
    app: App, clock: FakeClock
) -> None:
    seen: list[tuple[int, int]] = []

    @app.task(max_attempts=1)
    async def wait_for_it() -> None:
        attempt = current_attempt()
        seen.append((attempt.number, attempt.failures))
        if attempt.number < 4:
            raise Snooze(30)

    job_id = await wait_for_it.enqueue()
    async with app.worker():
        for snoozes in (1, 2, 3):
            await rested(app, job_id, after=snoozes)
            clock.advance(30)
        job = await ended(app, job_id)

    assert seen == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert (job.status, job.failures, job.errors) == (Status.SUCCEEDED, 0, ())


async def test_unrecoverable_is_a_dead_letter_at_once_with_its_reason(app: App) -> None:
    @app.task(max_attempts=5)
    async def give_up() -> None:
        msg = "no such order"
        raise Unrecoverable(msg)

    async with app.worker():
        job = await ended(app, await give_up.enqueue())

    assert (job.status, job.attempts, job.failures) == (Status.FAILED, 1, 1)
    assert job.last_error == "Unrecoverable: no such order"


@pytest.mark.parametrize(
    ("raised", "status"), [(KeyError, Status.FAILED), (IndexError, Status.PENDING)]
)
async def test_dead_on_names_the_exceptions_that_no_retry_helps(
    app: App, raised: type[LookupError], status: Status
) -> None:
    @app.task(dead_on=(KeyError,))
    async def look_up() -> None:
        raise raised

    job_id = await look_up.enqueue()
    async with app.worker():
        job = await rested(app, job_id)

    assert (job.status, job.attempts) == (status, 1)


async def test_a_backoff_that_cant_be_used_falls_back_to_the_default(
    app: App, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_failures: int) -> float:
        raise ZeroDivisionError

    @app.task(backoff=broken)
    async def fail() -> None:
        raise ValueError

    job_id = await fail.enqueue()
    async with app.worker():
        job = await rested(app, job_id)

    due_in = job.run_at - clock.now()
    assert timedelta(seconds=1) <= due_in <= timedelta(seconds=1.1)
    assert "The backoff of task 'fail' can't be used" in caplog.text


async def test_a_handler_may_ask_which_attempt_it_is(
    app: App, clock: FakeClock
) -> None:
    seen: list[dict[str, object]] = []

    @app.task(max_attempts=2, backoff=0, timeout=60)
    def ask() -> None:
        attempt = current_attempt()
        seen.append(
            {
                "job_id": attempt.job_id,
                "task": attempt.task,
                "queue": attempt.queue,
                "number": attempt.number,
                "failures": attempt.failures,
                "is_last": attempt.is_last,
                "deadline": attempt.deadline,
                "idempotency_key": attempt.idempotency_key,
            }
        )
        raise ValueError

    job_id = known(await ask.options(idempotency_key="k", queue="q").enqueue())
    async with app.worker():
        await ended(app, job_id)

    same = {
        "job_id": job_id,
        "task": "ask",
        "queue": "q",
        "deadline": clock.now() + timedelta(seconds=60),
        "idempotency_key": "k",
    }
    assert seen == [
        {**same, "number": 1, "failures": 0, "is_last": False},
        {**same, "number": 2, "failures": 1, "is_last": True},
    ]


async def test_every_attempt_has_its_own_context(app: App) -> None:
    who: ContextVar[str] = ContextVar("who", default="nobody")
    seen: list[str] = []

    @app.task
    async def introduce(name: str) -> None:
        seen.append(who.get())
        who.set(name)

    @app.task
    def introduce_in_thread(name: str) -> None:
        seen.append(who.get())
        who.set(name)

    who.set("the caller")
    async with app.worker(concurrency=1):
        for task in (introduce, introduce_in_thread):
            for name in ("one", "two"):
                await ended(app, await task.enqueue(name=name))

    assert seen == ["the caller"] * 4
    assert who.get() == "the caller"
