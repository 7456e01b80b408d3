"""Cases of the kind *priority and fairness*: what waits behind what others want."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from statistics import quantiles
from typing import Any

import pytest

from rowlock import App, Filter, Retry, Status, Task, current_attempt
from tests.endings import finished, known

BATCH = 5000


async def fill(app: App, task: Task[[], Coroutine[Any, Any, None]], count: int) -> None:
    """Enqueue so many jobs, in a few transactions."""
    for start in range(0, count, BATCH):
        await app.enqueue_many(
            task.job() for _ in range(start, min(start + BATCH, count))
        )


@pytest.mark.timeout(900)  # --slow enqueues 200,000 jobs
async def test_b108_a_queue_of_one_job_a_second_does_not_wait_behind_a_backlog(
    app: App, scale: int
) -> None:
    backlog, count, pause = (200_000, 40, 1.0) if scale > 1 else (4_000, 20, 0.1)
    waited: list[float] = []

    @app.task(queue="a")
    async def busy() -> None:
        await asyncio.sleep(0.005)  # a backlog that outlasts the test, on any machine

    @app.task(queue="b")
    async def small(at: float) -> None:
        waited.append(time.monotonic() - at)

    await fill(app, busy, backlog)
    async with app.worker(concurrency=5):
        for _ in range(count):
            last = await small.enqueue(at=time.monotonic())
            await asyncio.sleep(pause)  # the case's own: that many a second
        await finished(app, [last])
        stats = await app.stats()

    assert len(waited) == count
    assert quantiles(waited, n=20)[-1] < 1
    (a,) = [queue for queue in stats.queues if queue.queue == "a"]
    assert a.counts[Status.PENDING] > 0, "the backlog was over too early"


async def test_b109_a_retry_starts_at_once_beside_twice_the_work_there_is_room_for(
    app: App,
) -> None:
    started: list[int] = []

    @app.task(priority=-100)
    async def low() -> None:
        started.append(known(current_attempt().job_id))
        await asyncio.sleep(0.02)  # what a claim cycle takes

    @app.task(priority=100)
    async def top() -> None:
        started.append(known(current_attempt().job_id))
        if current_attempt().number == 1:
            raise Retry(delay=0.5)

    await fill(app, low, 500)
    async with app.worker(concurrency=2):
        job_id = await top.enqueue()
        (job,) = await finished(app, [job_id])

    assert job.status is Status.SUCCEEDED
    assert job.started_at is not None
    late = (job.started_at - job.run_at).total_seconds()
    assert late < 1
    page = await app.list(Filter(task="low", status=Status.SUCCEEDED), limit=1000)
    between = [
        each
        for each in page.jobs
        if each.started_at and job.run_at < each.started_at < job.started_at
    ]
    # Those that were claimed while it became due, or whose places it had to wait for.
    assert len(between) <= 4
    assert started.index(job.id) < len(started) - 1
