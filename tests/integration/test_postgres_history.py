"""Where finished jobs go on Postgres: partitions by day, ahead or just in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import Status
from rowlock._store import Demand, Pruned, Retention
from rowlock.stores import connect
from rowlock.stores.postgres import PostgresStore
from rowlock.testing import FakeClock
from tests.cluster_fixtures import FreshDatabase

from .postgres_given import job, opened

LEASE = timedelta(days=30)
DAY = timedelta(days=1)


@pytest.fixture
async def store(url: str, clock: FakeClock) -> AsyncIterator[PostgresStore]:
    """An open store on it, whose time the test moves."""
    async with opened(url, clock=clock) as store:
        yield store


async def claimed(store: PostgresStore, count: int) -> list[Any]:
    await store.enqueue([job()] * count)
    demand = Demand(total=count, tasks=frozenset({"mail"}))
    return list((await store.claim(demand, worker="w", lease=LEASE)).claims)


def partitions(url: str) -> list[str]:
    with psycopg.connect(url) as own:
        found = own.execute(
            "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid"
            " WHERE inhparent = 'rowlock.history'::regclass ORDER BY relname"
        )
        return [name for (name,) in found]


def without_partitions(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as own:
        for name in partitions(url):
            own.execute(f"DROP TABLE rowlock.{name}")


async def test_migrating_makes_the_partitions_of_a_week_ahead(
    fresh_database: FreshDatabase, clock: FakeClock
) -> None:
    url = fresh_database(empty=True)
    store = connect(url, clock=clock)

    await store.migrate()
    assert partitions(url) == [f"history_2026010{day}" for day in range(1, 9)]

    # As an operator's cron would, where no worker runs.
    clock.advance(2 * DAY)
    await store.migrate()
    assert partitions(url)[-1] == "history_20260110"
    await store.close()


async def test_upkeep_makes_them_too(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    clock.advance(100 * DAY)

    await store.prune(Retention(), limit=10)

    assert {f"history_202604{day}" for day in range(11, 19)} <= set(partitions(url))


async def test_a_finish_that_meets_no_partition_makes_it_and_goes_on(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    held = await claimed(store, 3)
    without_partitions(url)
    clock.advance(DAY / 2)

    settled = await store.finish(
        [
            _outcome.succeeded(held[0].key),
            *(_outcome.cancelled(h.key) for h in held[1:]),
        ]
    )

    assert all(each.accepted for each in settled)
    assert partitions(url)[0] == "history_20260101"
    assert {each.status for each in await store.get([h.job_id for h in held])} == {
        Status.SUCCEEDED,
        Status.CANCELLED,
    }


async def test_a_finish_on_the_day_before_its_start_makes_the_day_of_the_start(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    (held,) = await claimed(store, 1)
    without_partitions(url)
    clock.jump(-DAY)

    (settled,) = await store.finish([_outcome.succeeded(held.key)])

    assert settled.accepted
    assert "history_20260101" in partitions(url)


async def test_cancel_expire_and_spawning_make_it_too(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    (held,) = await claimed(store, 1)
    (job_id,) = await store.enqueue([job()])
    await store.enqueue([job(expires_at=clock.now() + DAY)])
    assert job_id is not None
    without_partitions(url)
    clock.advance(2 * DAY)

    (settled,) = await store.finish([_outcome.succeeded(held.key, spawned=(job(),))])
    assert (settled.accepted, len(settled.spawned)) == (True, 1)
    without_partitions(url)
    (answer,) = await store.cancel([job_id], by="ada")
    assert answer.done
    without_partitions(url)
    assert await store.prune(Retention(), limit=10) == Pruned(expired=1, deleted=0)


async def test_many_who_meet_no_partition_make_it_once(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    held = await claimed(store, 30)
    clock.advance(100 * DAY)

    settled = await asyncio.gather(
        *(store.finish([_outcome.succeeded(each.key)]) for each in held)
    )

    assert all(each.accepted for (each,) in settled)
    assert partitions(url).count("history_20260411") == 1


async def test_a_finish_waits_for_no_reader_of_the_history(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    held = await claimed(store, 2)
    await store.finish([_outcome.succeeded(held[0].key)])
    with psycopg.connect(url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT * FROM rowlock.jobs")
        clock.advance(100 * DAY)

        # The store's lock_timeout is a second: had it to wait, it would raise.
        (settled,) = await store.finish([_outcome.succeeded(held[1].key)])

        assert settled.accepted
        assert reader.execute("SELECT count(*) FROM rowlock.jobs").fetchone() == (2,)
        reader.rollback()


async def test_the_query_for_dead_letters_skips_the_history(
    store: PostgresStore, url: str
) -> None:
    assert store.url
    with psycopg.connect(url) as own:
        plan = "\n".join(
            line
            for (line,) in own.execute(
                "EXPLAIN SELECT task, attempts, last_error, updated_at"
                " FROM rowlock.jobs WHERE status = 'failed' ORDER BY updated_at DESC"
            )
        )

    assert "live" in plan
    assert "history" not in plan


async def test_jobs_that_stayed_behind_are_seen_and_moved(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    held = await claimed(store, 4)
    ids = [each.job_id for each in held]
    # As a completion in a caller's transaction that met no partition.
    with psycopg.connect(url) as own:
        own.execute(
            "UPDATE rowlock.live SET status = 'succeeded', leased_until = NULL,"
            " finished_at = %s WHERE id = ANY (%s)",
            (clock.now() - 40 * DAY, ids[:2]),
        )
        own.execute(
            "UPDATE rowlock.live SET status = 'cancelled', leased_until = NULL,"
            " finished_at = %s WHERE id = ANY (%s)",
            (clock.now(), ids[2:]),
        )
    page = await store.list(Filter(status=Status.SUCCEEDED))
    assert [each.id for each in page.jobs] == ids[1::-1]
    assert len(await store.get(ids)) == 4
    (answer,) = await store.replay([ids[3]], by="ada")
    assert answer.done

    assert (await store.prune(Retention(), limit=10)).deleted == 2

    with psycopg.connect(url) as own:
        in_live = own.execute("SELECT id FROM rowlock.live ORDER BY id").fetchall()
    assert in_live == [(ids[3],)]
    assert [each.id for each in (await store.list(Filter())).jobs] == [ids[3], ids[2]]
