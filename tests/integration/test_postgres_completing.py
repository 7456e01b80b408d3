"""What holds and completes on a connection of psycopg, and what it meets there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import psycopg
import pytest
from psycopg import AsyncConnection, IsolationLevel

from rowlock import (
    ClaimLost,
    Filter,
    Status,
    StoreUnavailable,
    _outcome,
)
from rowlock._job import Claim, ClaimKey
from rowlock._store import Demand, Fate, Retention
from rowlock.stores.postgres import PostgresStore, read
from rowlock.testing import FakeClock

from .postgres_given import LEVELS, connected, job, opened

LEASE = timedelta(seconds=60)
SNAPSHOTS = pytest.mark.parametrize(
    "level",
    [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE],
    ids=lambda each: each.name,
)


async def claims(store: PostgresStore, count: int = 1) -> Sequence[Claim]:
    await store.enqueue([job()] * count)
    demand = Demand(total=count, tasks=frozenset({"mail"}))
    return (await store.claim(demand, worker="w1", lease=LEASE)).claims


async def lapse(store: PostgresStore, key: ClaimKey, url: str) -> None:
    """Have a lease run out."""
    async with await AsyncConnection.connect(url, autocommit=True) as admin:
        await admin.execute(
            "UPDATE rowlock.live SET leased_until = now() - interval '1 hour'"
            " WHERE id = %s",
            (key.job_id,),
        )
    assert await fate(store, key) is Fate.RUNNING


async def fate(store: PostgresStore, key: ClaimKey) -> Fate:
    (found,) = await store.lent.settled([key])
    return found


@LEVELS
async def test_what_a_live_transaction_holds_is_neither_lost_nor_recovered(
    store: PostgresStore, url: str, level: IsolationLevel
) -> None:
    (held, free) = await claims(store, 2)
    for each in (held, free):
        await lapse(store, each.key, url)

    async with connected(url, level) as own:
        await store.lent.hold(held.key, own)
        began = time.monotonic()
        over = await store._database.read(partial(read.lost, limit=9, worker=None))
        lost = await store.lost(10, worker="w1")
        settled = await store.finish([_outcome.lost(each) for each in lost])
        renewal = await store.renew([held.key], worker="w1", lease=LEASE)
        took = time.monotonic() - began
        open_ = await fate(store, held.key)
        await own.rollback()

    assert [each.key for each in over] == [free.key]
    assert {each.key for each in settled if each.accepted} == {free.key}
    assert [each.key for each in settled if each.is_locked] == [held.key]
    assert not renewal.lost
    assert open_ is Fate.OPEN
    assert took < 2, took
    assert await fate(store, held.key) is Fate.RUNNING


@LEVELS
async def test_hold_says_at_once_that_a_claim_is_lost_and_the_transaction_is_over(
    store: PostgresStore, url: str, level: IsolationLevel
) -> None:
    (held,) = await claims(store)
    await store.finish([_outcome.snoozed(held.key, timedelta(0))])

    async with connected(url, level) as own:
        with pytest.raises(ClaimLost):
            await store.lent.hold(held.key, own)
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            await own.execute("SELECT 1")


@SNAPSHOTS
async def test_a_renewal_behind_a_snapshot_fails_a_completion_without_a_hold(
    store: PostgresStore, url: str, level: IsolationLevel
) -> None:
    (held,) = await claims(store)
    async with connected(url, level) as own:
        await own.execute("SELECT 1")
        await store.renew([held.key], worker="w1", lease=LEASE)
        with pytest.raises(psycopg.errors.SerializationFailure) as error:
            await store.lent.complete(_outcome.succeeded(held.key), own)

    assert "hold" in "".join(error.value.__notes__)
    assert await fate(store, held.key) is Fate.RUNNING


@SNAPSHOTS
async def test_a_hold_keeps_renewals_from_behind_a_snapshot(
    store: PostgresStore, url: str, level: IsolationLevel
) -> None:
    (held,) = await claims(store)
    async with connected(url, level) as own:
        await store.lent.hold(held.key, own)
        renewal = await store.renew([held.key], worker="w1", lease=LEASE)
        await store.lent.complete(_outcome.succeeded(held.key), own)
        await own.commit()

    assert not renewal.lost
    assert await fate(store, held.key) is Fate.SUCCEEDED


async def test_a_completion_that_meets_no_partition_is_moved_by_upkeep(
    url: str,
) -> None:
    clock = FakeClock()
    async with opened(url, clock=clock) as store:
        (held,) = await claims(store)
        # A day that nobody has made a partition for.
        clock.advance(timedelta(days=40))
        outcome = _outcome.succeeded(held.key, "[1]", meta={"a": 1})
        async with connected(url) as own:
            await store.lent.complete(outcome, own, progress='{"fraction": 1}')
            await own.commit()
            stays = await (
                await own.execute("SELECT count(*) FROM rowlock.live")
            ).fetchone()
        (before,) = await store.get([held.job_id])
        fate_before = await fate(store, held.key)
        await store.prune(Retention(), limit=10)
        (after,) = await store.get([held.job_id])

        assert stays == (1,)
        assert fate_before is await fate(store, held.key) is Fate.SUCCEEDED
    assert before == after
    assert (after.status, after.result) == (Status.SUCCEEDED, [1])
    assert (after.meta, after.progress) == ({"a": 1}, {"fraction": 1})
    assert after.finished_at == clock.now()


async def test_a_clock_set_back_gives_no_end_before_the_start(url: str) -> None:
    clock = FakeClock()
    async with opened(url, clock=clock) as store:
        (held,) = await claims(store)
        clock.advance(timedelta(hours=-1))
        async with connected(url) as own:
            await store.lent.complete(_outcome.succeeded(held.key), own)
            await own.commit()
        (found,) = await store.get([held.job_id])

    assert found.status is Status.SUCCEEDED
    assert found.finished_at == found.started_at


async def test_a_row_that_another_connection_has_is_waited_for_a_second(
    store: PostgresStore, url: str
) -> None:
    (held,) = await claims(store)
    async with connected(url) as first, connected(url) as second:
        await second.execute("SET lock_timeout = '20s'")
        await second.commit()
        # By somebody of whom this process knows nothing.
        await first.execute(
            "SELECT FROM rowlock.live WHERE id = %s FOR UPDATE", [held.job_id]
        )
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await store.lent.complete(_outcome.succeeded(held.key), second)
        took = time.monotonic() - began
        await second.rollback()
        setting = await (await second.execute("SHOW lock_timeout")).fetchone()

    assert 0.5 < took < 5, took
    assert setting == ("20s",)


async def test_what_cant_be_spawned_fails_the_transaction(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (held,) = await claims(store)
    monkeypatch.setattr("rowlock.stores.postgres.enqueue.TRIES", 0)
    outcome = _outcome.succeeded(held.key, spawned=(job(idempotency_key="k"),))

    async with connected(url) as own:
        with pytest.raises(StoreUnavailable, match="keys"):
            await store.lent.complete(outcome, own)
        # As who catches everything may do.
        await own.commit()

    assert await fate(store, held.key) is Fate.RUNNING


async def test_a_cancelled_completion_is_whole_or_fails_the_transaction(
    store: PostgresStore, url: str
) -> None:
    """Wherever the cancellation strikes: in the success, or in what it spawns."""
    before: list[int] = []
    for steps in range(12):
        (held,) = await claims(store)
        outcome = _outcome.succeeded(held.key, spawned=(job(task="other"),))
        async with connected(url) as own:
            await own.execute("SELECT 1")
            completing = asyncio.create_task(store.lent.complete(outcome, own))
            for _ in range(steps):
                await asyncio.sleep(0)
            completing.cancel()
            await asyncio.wait([completing])
            # As who swallows it may do.
            await own.commit()

        page = await store.list(Filter(task="other"))
        spawned = len(page.jobs) - sum(before)
        before.append(spawned)
        has_succeeded = await fate(store, held.key) is Fate.SUCCEEDED
        assert has_succeeded is (spawned == 1)


async def test_a_state_is_not_waited_for_beside_a_hold(
    store: PostgresStore, url: str
) -> None:
    (held,) = await claims(store)
    async with connected(url) as own:
        await store.lent.hold(held.key, own)
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await store.save(held.key, state='{"page": 1}')
        took = time.monotonic() - began
        await own.rollback()

    assert took < 1, took
    assert await store.save(held.key, state='{"page": 2}')
