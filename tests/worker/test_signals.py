"""What a handler meant and didn't do: signals swallowed, grouped, results dropped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from rowlock import App, Retry, Signal, Snooze, Status, Unrecoverable
from rowlock.events import Event, ResultDropped, SignalSwallowed
from rowlock.testing import FakeClock
from tests.endings import ended, known, rested
from tests.eventually import eventually


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Snooze(60), "Snooze: snoozed for 60 s"),
        (lambda: Retry(delay=5), "Retry: try again in 5 s"),
        (lambda: Unrecoverable("no order"), "Unrecoverable: no order"),
    ],
)
@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_signal_that_was_swallowed_is_told(
    app: App, told: list[Event], make: Callable[[], Signal], words: str, kind: str
) -> None:
    def swallow() -> str:
        try:
            raise make()  # noqa: TRY301 - the mistake that is meant
        except Exception:  # noqa: BLE001 - the same
            return "went on"

    async def swallow_too() -> str:
        return await asyncio.to_thread(swallow)

    task: Any = app.task(name="it")(swallow_too if kind == "async" else swallow)
    async with app.worker():
        job_id = known(await task.enqueue())
        job = await ended(app, job_id)

    assert (job.status, job.result) == (Status.SUCCEEDED, "went on")
    assert [event for event in told if isinstance(event, SignalSwallowed)] == [
        SignalSwallowed(
            job_id=job_id, task="it", queue="default", attempt=1, signal=words
        )
    ]


async def test_a_signal_that_ended_the_attempt_was_not_swallowed(
    app: App, told: list[Event], clock: FakeClock
) -> None:
    @app.task(max_attempts=1)
    async def chained(how: str) -> None:
        try:
            raise Snooze(60)  # noqa: TRY301 - as a library may
        except Snooze as signal:
            if how == "raised again":
                raise
            if how == "replaced":
                raise Retry(delay=1) from None
            msg = "it is in the chain of this"
            raise ValueError(msg) from signal

    async with app.worker():
        for how in ("raised again", "replaced", "wrapped"):
            await rested(app, await chained.enqueue(how))
        clock.advance(0)

    assert not [event for event in told if isinstance(event, SignalSwallowed)]


async def test_another_error_than_the_signal_is_a_failure_and_told(
    app: App, told: list[Event]
) -> None:
    @app.task(max_attempts=1)
    async def fail() -> None:
        Snooze(60)  # never raised
        msg = "no"
        raise ValueError(msg)

    async with app.worker():
        job = await ended(app, await fail.enqueue())

    assert job.last_error == "ValueError: no"
    assert [e.signal for e in told if isinstance(e, SignalSwallowed)] == [
        "Snooze: snoozed for 60 s"
    ]


async def test_signals_made_outside_of_attempts_are_nobodys(app: App) -> None:
    Snooze(60)

    @app.task
    async def fine() -> None: ...

    async with app.worker():
        assert (await ended(app, await fine.enqueue())).status is Status.SUCCEEDED


class Gone(Exception):
    """What no retry can help."""


@pytest.mark.parametrize(
    ("raised", "status", "failures", "delay_s", "last_error"),
    [
        ([Snooze(60)], Status.PENDING, 0, 60, None),
        ([Snooze(60), Snooze(300)], Status.PENDING, 0, 300, None),
        ([Retry(delay=60)], Status.PENDING, 1, 60, "Retry: try again in 60 s"),
        ([ValueError("x")], Status.PENDING, 1, 7, "ValueError: x"),
        ([Retry(delay=60), ValueError("x")], Status.PENDING, 1, 60, "ExceptionGroup: "),
        ([Snooze(60), ValueError("x")], Status.PENDING, 1, 7, "ExceptionGroup: "),
        ([Unrecoverable("no order")], Status.FAILED, 1, None, "Unrecoverable: no ord"),
        ([Snooze(60), Unrecoverable("no")], Status.FAILED, 1, None, "ExceptionGroup"),
        ([ValueError(n) for n in range(99)], Status.PENDING, 1, 7, "ExceptionGroup"),
        ([Gone("x"), Retry(delay=60)], Status.FAILED, 1, None, "ExceptionGroup: "),
    ],
)
async def test_of_a_task_groups_errors_the_gravest_counts(
    app: App,
    clock: FakeClock,
    raised: list[Exception],
    status: Status,
    failures: int,
    delay_s: int | None,
    last_error: str | None,
) -> None:
    @app.task(max_attempts=5, backoff=7, dead_on=(Gone,))
    async def gather() -> None:
        both = asyncio.Barrier(len(raised))

        async def child(error: Exception) -> None:
            await both.wait()
            raise error

        async with asyncio.TaskGroup() as group:
            for error in raised:
                group.create_task(child(error))

    async with app.worker():
        job = await rested(app, await gather.enqueue())

    assert (job.status, job.failures) == (status, failures)
    if delay_s is not None:
        waits = (job.run_at - clock.now()).total_seconds()
        assert delay_s <= waits <= 1.1 * delay_s
    assert (job.last_error or "").startswith(last_error or "")
    if last_error == "ExceptionGroup: ":
        assert "ValueError: x" in str(job.last_error) or "Gone: x" in str(
            job.last_error
        )


async def test_groups_in_groups_are_looked_into(app: App) -> None:
    @app.task(max_attempts=1)
    async def gather() -> None:
        async with asyncio.TaskGroup() as outer:
            async with asyncio.TaskGroup() as inner:
                inner.create_task(snooze())
            outer.create_task(asyncio.sleep(0))

    async def snooze() -> None:
        raise Snooze(60)

    async with app.worker():
        job = await rested(app, await gather.enqueue())

    assert (job.status, job.failures) == (Status.PENDING, 0)


async def test_a_result_that_was_dropped_is_told(
    app: App, told: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def count() -> object:
        return {"canary": float("nan")}

    async with app.worker():
        job_id = known(await count.enqueue())
        job = await ended(app, job_id)
        await eventually(lambda: any(isinstance(e, ResultDropped) for e in told))

    (event,) = (event for event in told if isinstance(event, ResultDropped))
    assert (event.job_id, event.attempt) == (job_id, 1)
    assert "canary" in str(job.meta["result_error"])
    (line,) = (r for r in caplog.records if r.getMessage().startswith("result.dropped"))
    assert line.levelno == logging.WARNING
    assert "canary" not in line.getMessage()
