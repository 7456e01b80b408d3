"""What is left of jobs that are over: nothing."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from rowlock import App, Retry, current_attempt
from rowlock._job import Claim, Outcome
from rowlock._worker.runs import Run
from tests.endings import all_over
from tests.eventually import eventually


class Big:
    """What a handler holds while it runs: a weak reference tells when it is gone."""

    def __init__(self) -> None:
        self.content = bytearray(1_000_000)


def alive() -> Counter[str]:
    """Count what a job may leave behind."""
    gc.collect()
    counted = (Run, Claim, Outcome, asyncio.Task, asyncio.Future)
    return Counter(
        type(found).__name__ for found in gc.get_objects() if isinstance(found, counted)
    )


@pytest.mark.timeout(600)
async def test_jobs_that_are_over_leave_nothing_behind(app: App, scale: int) -> None:
    jobs = 1000 if scale == 1 else 20_000
    # Where a test before this one has failed, pytest keeps what its frames held.
    others = alive()

    @app.task
    async def on_loop(number: int) -> int:
        await asyncio.sleep(0)
        return number

    @app.task
    def in_thread(number: int) -> int:
        return number

    async def run(count: int) -> Counter[str]:
        for task in (on_loop, in_thread):
            await app.enqueue_many(task.job(number=n) for n in range(count // 2))
        await all_over(app, within=300)
        # The store's thread may still be at the end of its last batch.
        of_a_job = {"Run", "Claim", "Outcome"}
        await eventually(lambda: not of_a_job & (alive() - others).keys())
        return alive()

    async with app.worker(concurrency=50):
        # The first have made what is made once.
        before = await run(200)
        after = await run(jobs)
        timers: list[object] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]  # nothing outside shows them

        # A few more or less are of the polling itself.
        assert after.total() - before.total() < 20, after - before
        # asyncio sweeps out cancelled timers when more than half of 100 are.
        assert len(timers) < 250


@pytest.mark.parametrize("is_surrounded", [True, False], ids=["surrounded", "bare"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
@pytest.mark.timeout(600)
async def test_jobs_that_fail_keep_no_frame_and_no_argument_alive(
    app: App, scale: int, *, is_async: bool, is_surrounded: bool
) -> None:
    if is_surrounded:
        app.around(lambda _: nullcontext())
    jobs = 100 if scale == 1 else 10_000
    held: list[Callable[[], object]] = []

    def fail(number: int) -> None:
        big = Big()
        held.append(weakref.ref(big))
        try:
            int(f"no number {number}")
        except ValueError as error:
            if current_attempt().number == 1:
                raise Retry(delay=0) from error
            raise LookupError(big) from error

    async def fail_async(number: int) -> None:
        fail(number)

    task = app.task(max_attempts=2)(fail_async if is_async else fail)
    # Without the collector: what goes, goes when the attempt is over.
    gc.collect()
    gc.disable()
    try:
        async with app.worker(concurrency=20):
            await app.enqueue_many(task.job(number=n) for n in range(jobs))
            await all_over(app, within=300)
            assert len(held) == 2 * jobs
            assert sum(ref() is not None for ref in held) == 0
    finally:
        gc.enable()
