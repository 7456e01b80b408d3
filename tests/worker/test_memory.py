"""What is left of jobs that are over: nothing."""

from __future__ import annotations

import asyncio
import gc
import resource
import subprocess
import sys
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest

from rowlock import App, Retry, current_attempt
from rowlock._job import Claim, Outcome
from rowlock._store import Wakeups
from rowlock._worker.runs import Run
from tests.endings import all_over
from tests.eventually import eventually


class Big:
    """What a handler holds while it runs: a weak reference tells when it is gone."""

    def __init__(self) -> None:
        self.content = bytearray(1_000_000)


def resident_mb() -> float:
    """Tell how much memory this process has, in MB."""
    if (statm := Path("/proc/self/statm")).exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS: the most


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
async def test_b81_jobs_that_fail_keep_no_frame_and_no_argument_alive(
    app: App, scale: int, *, is_async: bool, is_surrounded: bool
) -> None:
    if is_surrounded:
        app.around(lambda _: nullcontext())
    # Each fails twice.
    jobs = 1000 if scale == 1 else 10_000
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
            await app.enqueue_many(task.job(number=n) for n in range(100))
            await all_over(app, within=300)
            before = resident_mb()
            await app.enqueue_many(task.job(number=n) for n in range(jobs - 100))
            await all_over(app, within=300)
            assert resident_mb() - before < 50
            assert len(held) == 2 * jobs
            assert sum(ref() is not None for ref in held) == 0
    finally:
        gc.enable()


class Hasty:
    """Wakes a sleeper after a millisecond; a `Wakeups`."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self.close = wakeups.close
        self.polls = 0

    async def wait(self, timeout: timedelta) -> bool:
        self.polls += 1
        return await self._wakeups.wait(min(timeout, timedelta(milliseconds=1)))


@pytest.mark.timeout(900)
async def test_b80_polls_that_find_nothing_leave_nothing(app: App, scale: int) -> None:
    polls = 2000 if scale == 1 else 100_000

    @app.task
    async def greet() -> None: ...

    hasty: list[Hasty] = []
    wakeups = app._store.wakeups

    def make(poll_interval: timedelta) -> Hasty:
        hasty.append(Hasty(wakeups(poll_interval)))
        return hasty[-1]

    app._store.wakeups = make  # type: ignore[method-assign,assignment]  # the case's 1 ms
    descriptors = Path("/proc/self/fd")

    def kept() -> tuple[int, int, int]:
        gc.collect()
        files = len([*descriptors.iterdir()]) if descriptors.exists() else 0
        return tracemalloc.get_traced_memory()[0], len(asyncio.all_tasks()), files

    async def polled(count: int) -> None:
        until = hasty[0].polls + count
        await eventually(lambda: hasty[0].polls >= until, within=600)

    tracemalloc.start()
    try:
        async with app.worker():
            await eventually(lambda: bool(hasty))
            await polled(300)  # what is made once
            memory, tasks, files = kept()
            await polled(polls)
            after = kept()
            assert after[0] - memory < 1_000_000
            # A poll's own come and go.
            assert after[1] - tasks < 5
            assert after[2] - files < 5
    finally:
        tracemalloc.stop()


@pytest.mark.timeout(3600)
def test_many_jobs_that_do_nothing_cost_no_memory(
    database_url: str, scale: int
) -> None:
    count = 20_000 if scale == 1 else 1_000_000
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.many", database_url, str(count)],
        cwd=Path(__file__).parent.parent.parent,
        check=True,
        capture_output=True,
        text=True,
    )
    told = [float(line.split()[1]) for line in done.stdout.splitlines()]

    # After the first fifth all is there that is made once. A kilobyte that each job
    # left would be 15 MB, and with a million 800.
    assert told[-1] - told[len(told) // 5] < 8, told
