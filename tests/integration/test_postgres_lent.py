"""Jobs in the caller's transaction on Postgres; of every kind see `tests/lent`."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pytest

from rowlock import Filter, WrongConnection
from rowlock.stores.postgres import PostgresStore
from tests.eventually import eventually

from .postgres_given import job, somebody_waits

Sync = psycopg.Connection[Any]


async def ids(store: PostgresStore) -> set[int]:
    return {job.id for job in (await store.list(Filter())).jobs}


def heard(listening: Sync) -> list[str]:
    """Read the notifications there are."""
    listening.execute("SELECT 1")
    return [notice.payload for notice in listening.notifies(timeout=0.2)]


async def test_law_15_what_is_committed_already_is_answered_though_it_cant_be_told(
    store: PostgresStore, url: str
) -> None:
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("DROP ROLE IF EXISTS quiet")
        own.execute("CREATE ROLE quiet")
    await store.migrate(worker_role="quiet")
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("REVOKE EXECUTE ON FUNCTION pg_notify FROM PUBLIC")
        own.execute("SET SESSION AUTHORIZATION quiet")
        (job_id,) = store.lent.enqueue_sync([job()], own)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as awaited:
        await awaited.execute("SET SESSION AUTHORIZATION quiet")
        (other_id,) = await store.lent.enqueue([job()], awaited)

    assert await ids(store) == {job_id, other_id}


async def test_a_duplicate_is_no_news(store: PostgresStore, url: str) -> None:
    await store.enqueue([job(idempotency_key="k")])
    with psycopg.connect(url, autocommit=True) as listening:
        listening.execute('LISTEN "rowlock:rowlock"')
        with psycopg.connect(url) as own:
            assert store.lent.enqueue_sync([job(idempotency_key="k")], own) == (None,)

        assert heard(listening) == []


async def test_b147_other_kinds_are_refused_with_the_list_of_those_that_work(
    store: PostgresStore,
) -> None:
    with closing(sqlite3.connect(":memory:")) as other:
        for connection in (other, object(), None, "postgresql:///shop"):
            with pytest.raises(WrongConnection, match=r"psycopg\.AsyncConnection"):
                await store.lent.enqueue([job()], connection)
            with pytest.raises(WrongConnection, match=r"psycopg\.Connection"):
                store.lent.enqueue_sync([job()], connection)

    assert await ids(store) == set()


async def test_an_operator_and_a_caller_who_replaces_dont_block_each_other(
    store: PostgresStore, url: str
) -> None:
    last, first = [job(idempotency_key=key, on_conflict="replace") for key in "za"]
    made = [job_id for job_id in await store.enqueue([last, first]) if job_id]
    with psycopg.connect(url) as other, psycopg.connect(url) as own:
        own.execute("SET deadlock_timeout = '10ms'")
        store.lent.enqueue_sync([first], own)
        store.lent.enqueue_sync([last], other)
        cancelling = asyncio.create_task(store.cancel(made, by="Ada"))
        await eventually(lambda: somebody_waits(url))
        other.commit()
        # In the order in which keys are taken: the operator has none of both yet.
        await asyncio.sleep(0.05)  # for who would have taken what is free now
        await asyncio.to_thread(store.lent.enqueue_sync, [last], own)
        own.commit()
        found = await cancelling

    assert [answer.done for answer in found] == [True, True]
