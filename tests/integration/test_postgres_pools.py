"""More to do than there are connections, and callers who go away in the middle."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest

from rowlock import (
    App,
    Filter,
    OutcomeUnknown,
    Retention,
    Status,
    StoreUnavailable,
    current_attempt,
)
from rowlock.stores.postgres import PostgresStore, pool
from tests.endings import all_over, finished
from tests.eventually import eventually

from .postgres_given import job
from .test_postgres_connections import sessions, terminate

LEASE = timedelta(seconds=60)

if TYPE_CHECKING:
    from rowlock._store import Renewal, Store


@pytest.mark.parametrize("executor", ["loop", "threads"])
async def test_b65_handlers_that_use_the_store_starve_no_bookkeeping(
    url: str, monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    """Ten handlers share two connections with the worker, which goes first."""
    monkeypatch.setattr(pool, "LARGEST", 2)
    lease_s, count = 2.0, 100
    app = App(url, lease=lease_s)
    renewed_at = note_renewals(app)

    @app.task
    async def child(number: int) -> int:
        return number

    async def parent(number: int) -> int:
        for _ in range(3):
            await app.get(current_attempt().job_id)
        await child.enqueue(number=number)
        return number

    def parent_in_thread(number: int) -> int:
        app.get_sync(current_attempt().job_id)
        child.enqueue_sync(number=number)
        return number

    task = app.task(parent if executor == "loop" else parent_in_thread)
    async with app, app.worker(concurrency=10):
        ids = await app.enqueue_many(task.job(number=n) for n in range(count))
        jobs = await finished(app, ids, within=40)
        await all_over(app)
        children = (await app.list(Filter(task="child"), limit=2 * count)).jobs
        await asyncio.sleep(lease_s)  # real: for some renewals, idle
    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert [job.attempts for job in jobs] == [1] * count
    assert len(children) == count
    assert all(job.status is Status.SUCCEEDED for job in children)
    gaps = [b - a for a, b in itertools.pairwise(renewed_at)]
    assert max(gaps) < lease_s / 2


def note_renewals(app: App) -> Sequence[float]:
    """Note when the worker of an app has renewed."""
    store, renewed_at = app._store, [time.monotonic()]

    class Noted:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def renew(self, *args: Any, **options: Any) -> Renewal:  # noqa: ANN401 - as they come
            renewal = await store.renew(*args, **options)
            renewed_at.append(time.monotonic())
            return renewal

    app._access.store = cast("Store", Noted())
    return renewed_at


async def test_b66_a_thousand_callers_that_go_away_leave_every_connection_free(
    store: PostgresStore, url: str
) -> None:
    """In what a worker and a handler call; while connections are made and lost too."""
    chance = random.Random(66)
    standing: list[tuple[Any, ...]] = []

    async def call(number: int) -> None:
        calls = [
            store.enqueue([job(idempotency_key=str(number))]),
            store.enqueue([job(), job()]),
            store.stats(),
            store.renew((), worker="w", lease=LEASE),
            store.prune(Retention(), limit=10),
        ]
        chosen = calls.pop(number % len(calls))
        for other in calls:
            other.close()
        with suppress(TimeoutError, StoreUnavailable, OutcomeUnknown):
            async with asyncio.timeout(chance.uniform(0, 0.03)):
                await chosen

    for start in range(0, 1000, 50):
        await asyncio.gather(*(call(n) for n in range(start, start + 50)))
        # The server sees a connection that was given up end a moment later.
        await eventually(lambda: len(sessions(url)) <= pool.LARGEST)
        if start % 200 == 0:
            await asyncio.to_thread(terminate, url)
        standing += stood_still(url)

    assert standing == []
    assert len(await asyncio.gather(*(store.stats() for _ in range(30)))) == 30
    (home,) = store._database._homes.values()
    await eventually(lambda: not home.pool._used)
    assert home.pool._count == len(home.pool._idle) <= pool.LARGEST
    assert {state for _, _, state in sessions(url)} == {"idle"}


def stood_still(url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as own:
        return own.execute(
            "SELECT pid, state, query FROM pg_stat_activity"
            " WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
            " AND clock_timestamp() - state_change > interval '1 s'"
        ).fetchall()
