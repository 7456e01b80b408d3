"""Cases of the kind *timeouts*: leases and timeouts that differ."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

import pytest

from rowlock import App, Status, UsageError
from rowlock._job import NewJob
from rowlock._store import Demand
from rowlock.testing import FakeClock
from tests.endings import ended, finished, jobs_of, known
from tests.journal import Journal
from tests.programs import gated
from tests.workers import LEASE_S, START_S, Workers

LEASE = timedelta(seconds=LEASE_S)
MANY = 10_000


@pytest.mark.parametrize("timeout", [12 * LEASE_S, 0], ids=["12 leases", "none"])
async def test_b07_a_handler_of_four_leases_runs_once_beside_three_workers(
    app: App, journal: Journal, workers: Workers, timeout: float
) -> None:
    """Its lease is renewed; the two settings need not fit each other."""
    gated.register(app, journal)
    for label in ("one", "two", "three"):
        workers.launch("gated", label)
    await workers.until("worker.started", count=3, within=START_S)

    nap = app.find_task("nap").options(timeout=timeout)
    job = await ended(app, await nap.enqueue(seconds=4 * LEASE_S))

    assert (job.status, job.claims, job.losses) == (Status.SUCCEEDED, 1, 0)
    assert len(workers.records("started")) == 1


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_b74_a_longer_timeout_of_its_own_is_respected_and_0_is_none(
    database_url: str, *, is_async: bool
) -> None:
    async with App(database_url, timeout=0.1) as app:

        def work(seconds: float) -> None:
            time.sleep(seconds)  # a handler that takes its time

        async def work_async(seconds: float) -> None:
            await asyncio.sleep(seconds)  # a handler that takes its time

        function = work_async if is_async else work
        short = app.task(name="short", max_attempts=1)(function)
        longer = app.task(name="longer", max_attempts=1, timeout=30)(function)
        endless = app.task(name="endless", max_attempts=1, timeout=0)(function)
        async with app.worker(lease=LEASE_S, concurrency=10):
            ids = [
                await short.enqueue(seconds=1.5 * LEASE_S),
                await longer.enqueue(seconds=1.5 * LEASE_S),
                await endless.enqueue(seconds=1.5 * LEASE_S),
                await short.options(timeout=30).enqueue(seconds=1.5 * LEASE_S),
                await short.options(timeout=0).enqueue(seconds=1.5 * LEASE_S),
            ]
            jobs = await finished(app, ids)

    statuses = [job.status for job in jobs]
    assert statuses == [Status.FAILED] + [Status.SUCCEEDED] * 4
    assert {job.claims for job in jobs} == {1}


@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan"), True])
def test_b74_a_timeout_below_0_is_refused_wherever_it_is_given(
    app: App, timeout: float
) -> None:
    with pytest.raises(UsageError, match="timeout"):
        App(app.url, timeout=timeout)
    with pytest.raises(UsageError, match="timeout"):

        @app.task(timeout=timeout)
        async def refused() -> None: ...

    @app.task
    async def work() -> None: ...

    with pytest.raises(UsageError, match="timeout"):
        work.options(timeout=timeout)


async def test_b74_running_jobs_without_a_timeout_hide_none_that_is_lost(
    still_app: App, clock: FakeClock
) -> None:
    store = still_app._store
    new = NewJob(task="t", queue="q", payload="{}", max_attempts=9, timeout=0)
    demand = Demand(total=500, tasks=frozenset({"t"}))

    # The lost one in the middle of them, in whatever order they are looked at.
    for _ in range(2):
        await store.enqueue([new] * (MANY // 2))
    keys = []
    for _ in range(MANY // 500):
        claimed = await store.claim(demand, worker="w", lease=LEASE)
        keys += [each.key for each in claimed.claims]
    lost = keys.pop(MANY // 2)
    for _ in range(8):
        clock.advance(0.25 * LEASE_S)
        for start in range(0, len(keys), 1000):
            await store.renew(keys[start : start + 1000], worker="w", lease=LEASE)

    assert [claim.key for claim in await store.lost(1)] == [lost]
    assert [claim.key for claim in await store.lost(100)] == [lost]


async def test_b75_no_timeout_runs_before_its_handler_does(app: App) -> None:
    """
    A job isn't claimed before there is room for it, so it waits in the table, not in a
    pool of threads.
    """
    began: dict[int, float] = {}

    @app.task(timeout=0.8, max_attempts=1)
    def work(number: int) -> None:
        began[number] = time.time()
        time.sleep(0.6)  # three quarters of its timeout, as in the case

    async with app.worker(concurrency=2):
        ids = await app.enqueue_many(work.job(number=n) for n in range(10))
        jobs = await finished(app, ids)

    for number, job in enumerate(jobs):
        assert (job.status, job.claims) == (Status.SUCCEEDED, 1)
        assert job.started_at is not None
        assert began[number] - job.started_at.timestamp() < 0.3


async def test_b75_what_was_not_started_at_shutdown_is_released_not_failed(
    app: App,
) -> None:
    gate, has_begun = threading.Event(), threading.Event()

    @app.task(timeout=30)
    def work() -> None:
        has_begun.set()
        gate.wait(30)

    ids = await app.enqueue_many(work.job() for _ in range(10))
    async with app.worker(concurrency=2):
        await asyncio.to_thread(has_begun.wait, 10)
        await asyncio.sleep(0.1)  # for the second
        asyncio.get_running_loop().call_later(0.3, gate.set)

    jobs = await jobs_of(app, ids)
    told = [(job.status, job.attempts, job.failures) for job in jobs]
    assert told.count((Status.SUCCEEDED, 1, 0)) == 2
    assert told.count((Status.PENDING, 0, 0)) == 8
    assert known(ids[0])
