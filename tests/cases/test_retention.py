"""Cases of the kind *retention*: pruning beside everything else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest

from rowlock import App, Filter, Retention, Status, StoreUnavailable
from rowlock._worker import upkeep
from tests.endings import all_over, ended, known
from tests.eventually import eventually

AT_ONCE = Retention(
    succeeded=timedelta(0), cancelled=timedelta(0), failed=timedelta(days=1)
)


async def test_b89_pruning_goes_in_bounded_steps_while_jobs_run(
    database_url: str, monkeypatch: pytest.MonkeyPatch, scale: int
) -> None:
    """
    The figure asked for, 95 % of claims within twice the idle time, is the benchmarks'.
    """
    monkeypatch.setattr(upkeep, "PRUNE_BATCH", 100)
    app = App(database_url, retention=AT_ONCE)

    @app.task
    async def work(n: int = 0) -> int:
        return n

    steps: list[int] = []

    async with app:
        prune = app._store.prune

        async def counted(retention: Retention, *, limit: int) -> object:
            pruned = await prune(retention, limit=limit)
            steps.append(pruned.deleted)
            return pruned

        monkeypatch.setattr(app._store, "prune", counted)
        old = 2000 * scale
        await app.enqueue_many(work.options(queue="old").job(n) for n in range(old))
        await app.cancel(Filter(queue="old"))
        async with app.worker(concurrency=2):
            # Pruning is under way, and nobody waits for the end of it.
            began = time.monotonic()
            while len(steps) < 3:
                assert await app.wait(known(await work.enqueue(1)), 5) is not None
            assert time.monotonic() - began < 30
            await eventually(lambda: sum(steps) >= old, within=60)
            assert not (await app.list(Filter(queue="old"), limit=1)).jobs

    assert max(steps) <= 100


async def repeated(until: float, call: Callable[[], Awaitable[object]]) -> float:
    """Make a call again and again; tell how long the longest took, in seconds."""
    longest = 0.0
    while (began := time.monotonic()) < until:
        with suppress(StoreUnavailable):  # a busy SQLite; tried again
            await call()
        await asyncio.sleep(0)  # what is answered from memory lets others run, too
        longest = max(longest, time.monotonic() - began)
    return longest


async def test_b90_six_who_prune_sweep_and_replay_are_in_nobodys_way(
    database_url: str, app: App, scale: int
) -> None:
    @app.task(max_attempts=1)
    async def work(n: int) -> None: ...

    count = 300
    ids = await app.enqueue_many(work.job(n) for n in range(count))
    await app.cancel(Filter(status=Status.PENDING))

    apps = [App(database_url) for _ in range(6)]
    keep = Retention(cancelled=timedelta(days=1))
    cancelled, pending = Filter(status=Status.CANCELLED), Filter(status=Status.PENDING)
    pruning = [partial(each._store.prune, keep, limit=50) for each in apps[:2]]
    # By name, as a process that is new reads no other losses.
    sweeping = [partial(each._store.lost, 50, worker="dead") for each in apps[2:4]]
    replaying = [partial(each.replay, cancelled) for each in apps[4:]]
    cancelling = [partial(each.cancel, pending) for each in apps[4:]]
    calls: list[Callable[[], Awaitable[object]]]
    calls = [*pruning, *sweeping, *replaying, *cancelling]
    await asyncio.gather(*(each.open() for each in apps))
    until = time.monotonic() + 2 * scale
    took = await asyncio.gather(*(repeated(until, call) for call in calls))
    await asyncio.gather(*(each.close() for each in apps))

    assert max(took) < 5
    await app.replay(cancelled)
    async with app.worker(concurrency=20):
        await all_over(app)
        assert (await ended(app, ids[0])).status is Status.SUCCEEDED
    (queue,) = (await app.stats()).queues
    assert queue.counts[Status.SUCCEEDED] == count
