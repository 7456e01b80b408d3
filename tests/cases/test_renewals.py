"""Renewal beside everything else that a worker and its operators do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from typing import Any

from rowlock import App, Filter
from rowlock._store import Renewal
from tests.eventually import eventually

LEASE_S = 1
LOOK_S = 2.5  # eight renewals at 0.3 of the lease
RUNNING = 20


@contextmanager
def renewals(app: App) -> Iterator[list[float]]:
    """Note when a renewal has been written."""
    instants: list[float] = []
    renew = app._store.renew

    async def noted(*args: Any, **options: Any) -> Renewal:  # noqa: ANN401 - as they come
        renewal = await renew(*args, **options)
        instants.append(time.monotonic())
        return renewal

    app._store.renew = noted  # type: ignore[method-assign]  # it notes, and calls
    yield instants
    app._store.renew = renew  # type: ignore[method-assign]


@asynccontextmanager
async def busy(app: App) -> AsyncIterator[None]:
    """Sweep, prune and count without a pause."""

    async def sweep() -> None:
        while True:
            await app._store.lost(100)
            await app._store.prune(app.retention, limit=1000)
            await app.stats()

    sweeping = asyncio.create_task(sweep())
    try:
        yield
    finally:
        sweeping.cancel()
        await asyncio.wait({sweeping})


async def fill(app: App, count: int) -> None:
    """Have jobs in every status that no worker here takes."""
    away = app.find_task("note").options(queue="away")
    kinds = (away.options(priority=1), away.options(delay=3600), away)
    for task in kinds:
        for start in range(0, count, 3 * 5000):
            size = min(5000, (count - start) // 3)
            await app.enqueue_many(task.job() for _ in range(size))
    await app.cancel(Filter(queue="away", priority=1))


def longest_gap(instants: list[float]) -> float:
    gaps = [after - before for before, after in pairwise(instants)]
    assert len(gaps) > LOOK_S / LEASE_S
    return max(gaps)


async def test_b70_renewals_come_as_often_beside_very_many_jobs(
    database_url: str, scale: int
) -> None:
    """
    The longest gap, as the 99th percentile of so few is; a busy machine may be late
    once, so each is looked at three times, and the best counts.
    """
    gate = asyncio.Event()

    # The machine's own clock, as gaps are times.
    async with App(database_url) as app:

        @app.task
        async def wait() -> None:
            await gate.wait()

        @app.task
        async def note() -> None: ...

        worker = app.worker(concurrency=RUNNING, queues=["default"], lease=LEASE_S)
        async with worker:
            ids = [await wait.enqueue() for _ in range(RUNNING)]
            await eventually(lambda: worker.health().running == RUNNING)

            async def gap() -> float:
                with renewals(app) as instants:
                    await asyncio.sleep(LOOK_S)  # gaps are times
                return longest_gap(instants)

            empty = min([await gap() for _ in range(2)])
            await fill(app, 6_000 if scale == 1 else 1_000_000)
            async with busy(app):
                crowded = min([await gap() for _ in range(3)])
            gate.set()
            for job_id in ids:
                await app.wait(job_id, timeout=60)

    assert crowded < 1.2 * empty
