"""Jobs in the caller's transaction on Postgres: psycopg's connections, both kinds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from rowlock import App, Filter, OutcomeUnknown, StoreUnavailable, WrongConnection
from rowlock.stores import connect
from rowlock.stores.postgres import PostgresStore
from tests.cluster_fixtures import FreshDatabase

from .postgres_given import job

Sync = psycopg.Connection[Any]
Async = psycopg.AsyncConnection[Any]


async def ids(store: PostgresStore) -> set[int]:
    return {job.id for job in (await store.list(Filter())).jobs}


def heard(listening: Sync) -> list[str]:
    """Read the notifications there are."""
    listening.execute("SELECT 1")
    return [notice.payload for notice in listening.notifies(timeout=0.2)]


async def test_an_async_connection_joins_its_transaction(
    store: PostgresStore, url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(url) as own:
        (rolled_back,) = await store.lent.enqueue([job(idempotency_key="k")], own)
        assert await ids(store) == set()
        await own.rollback()
        assert await ids(store) == set()

        (kept,) = await store.lent.enqueue([job(idempotency_key="k")], own)
        await own.commit()

    assert rolled_back is not None
    assert kept is not None
    assert await ids(store) == {kept}


async def test_a_connection_in_autocommit_writes_at_once(
    store: PostgresStore, url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as own:
        (first,) = await store.lent.enqueue([job()], own)
        assert await ids(store) == {first}
        async with own.transaction(force_rollback=True):
            await store.lent.enqueue([job()], own)
    with psycopg.connect(url, autocommit=True) as synchronous:
        (second,) = store.lent.enqueue_sync([job()], synchronous)

    assert await ids(store) == {first, second}


# What ends the session that inserts a job, once it is inserted or as it is committed.
DEADLY = """
CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
CREATE TRIGGER die AFTER INSERT ON rowlock.live
    FOR EACH STATEMENT EXECUTE FUNCTION die();
"""


@pytest.mark.parametrize(
    ("autocommit", "expected"), [(True, OutcomeUnknown), (False, StoreUnavailable)]
)
async def test_law_15_where_the_insert_is_the_commit_its_end_may_be_unknown(
    store: PostgresStore, url: str, expected: type[Exception], *, autocommit: bool
) -> None:
    with psycopg.connect(url, autocommit=True) as own:
        own.execute(DEADLY)

    lent = await psycopg.AsyncConnection.connect(url, autocommit=autocommit)
    with pytest.raises(expected):
        await store.lent.enqueue([job()], lent)
    with (
        psycopg.connect(url, autocommit=autocommit) as synchronous,
        pytest.raises(expected),
    ):
        store.lent.enqueue_sync([job()], synchronous)
    await lent.close()


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


async def test_every_option_works_on_a_lent_connection(
    store: PostgresStore, url: str
) -> None:
    lent = job(
        priority=7,
        delay=timedelta(hours=1),
        max_attempts=9,
        timeout=1.5,
        backoff={"kind": "fixed", "values": [1.0]},
        meta={"trace": "é"},
        payload='{"n": 1e22}',
    )
    with psycopg.connect(url) as own:
        (job_id,) = store.lent.enqueue_sync([lent], own)
    assert job_id is not None

    (stands,) = await store.get([job_id])

    assert (stands.priority, stands.max_attempts, stands.timeout) == (7, 9, 1.5)
    assert stands.run_at - stands.created_at == timedelta(hours=1)
    assert (stands.backoff, stands.meta) == (lent.backoff, lent.meta)


async def test_what_the_caller_has_set_on_the_connection_is_no_matter(
    store: PostgresStore, url: str
) -> None:
    with psycopg.connect(
        url,
        row_factory=dict_row,
        cursor_factory=psycopg.ClientCursor,
        options="-c search_path=nowhere -c timezone=Asia/Tokyo -c datestyle=SQL,DMY",
        prepare_threshold=None,
    ) as own:
        for name in ("timestamptz", "int8", "text"):
            own.adapters.register_loader(name, TextLoader)
        own.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        own_ids = store.lent.enqueue_sync([job(idempotency_key="k")] * 2, own)

    assert own_ids[1] is None
    assert await ids(store) == {own_ids[0]}


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_the_notification_is_a_part_of_the_transaction(
    store: PostgresStore, url: str, ends: str
) -> None:
    with psycopg.connect(url, autocommit=True) as listening:
        listening.execute('LISTEN "rowlock:rowlock"')
        with psycopg.connect(url) as own:
            store.lent.enqueue_sync([job(queue="a"), job(queue="b")], own)
            assert heard(listening) == []
            own.commit() if ends == "commit" else own.rollback()
        notices = heard(listening)

    assert len(notices) == (1 if ends == "commit" else 0)
    assert all('"a"' in notice and '"b"' in notice for notice in notices)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_the_notification_is_a_part_of_an_async_transaction_too(
    store: PostgresStore, url: str, ends: str
) -> None:
    with psycopg.connect(url, autocommit=True) as listening:
        listening.execute('LISTEN "rowlock:rowlock"')
        async with await psycopg.AsyncConnection.connect(url) as own:
            await store.lent.enqueue([job(queue="a")], own)
            assert heard(listening) == []
            await (own.commit() if ends == "commit" else own.rollback())
        notices = heard(listening)

    assert len(notices) == len(await ids(store)) == (1 if ends == "commit" else 0)


async def test_a_duplicate_is_no_news(store: PostgresStore, url: str) -> None:
    await store.enqueue([job(idempotency_key="k")])
    with psycopg.connect(url, autocommit=True) as listening:
        listening.execute('LISTEN "rowlock:rowlock"')
        with psycopg.connect(url) as own:
            assert store.lent.enqueue_sync([job(idempotency_key="k")], own) == (None,)

        assert heard(listening) == []


async def test_a_duplicate_under_snapshot_isolation_raises_the_drivers_own_error(
    store: PostgresStore, url: str
) -> None:
    with psycopg.connect(url) as own:
        own.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        own.execute("SELECT 1")
        await store.enqueue([job(idempotency_key="k")])

        with pytest.raises(psycopg.errors.SerializationFailure):
            store.lent.enqueue_sync([job(idempotency_key="k")], own)


async def test_b147_each_kind_in_the_other_call_is_told_which_one_is_meant(
    store: PostgresStore, url: str
) -> None:
    with (
        psycopg.connect(url) as own,
        pytest.raises(WrongConnection, match="enqueue_sync"),
    ):
        await store.lent.enqueue([job()], own)
    async with await psycopg.AsyncConnection.connect(url) as asynchronous:
        with pytest.raises(WrongConnection, match="await enqueue"):
            store.lent.enqueue_sync([job()], asynchronous)

    assert await ids(store) == set()


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


def close(own: Sync) -> None:
    own.close()


def fail(own: Sync) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        own.execute("SELECT 1 / 0")


@pytest.mark.parametrize(("spoil", "says"), [(close, "closed"), (fail, "roll it back")])
async def test_a_connection_that_can_write_nothing_is_refused(
    store: PostgresStore, url: str, spoil: Callable[[Sync], None], says: str
) -> None:
    own = psycopg.connect(url)
    spoil(own)

    with pytest.raises(WrongConnection, match=says):
        store.lent.enqueue_sync([job()], own)
    own.close()

    assert await ids(store) == set()


async def test_a_connection_to_another_database_is_refused(
    store: PostgresStore, fresh_database: FreshDatabase
) -> None:
    elsewhere = fresh_database()
    async with await psycopg.AsyncConnection.connect(elsewhere) as other:
        for _ in range(2):
            with pytest.raises(WrongConnection, match="the store is"):
                await store.lent.enqueue([job()], other)
    with (
        psycopg.connect(elsewhere) as synchronous,
        pytest.raises(WrongConnection, match="the store is"),
    ):
        store.lent.enqueue_sync([job()], synchronous)

    another = connect(elsewhere)
    await another.open()
    assert (await another.list(Filter())).jobs == ()
    await another.close()


def test_a_lent_connection_in_an_app_without_a_loop(url: str) -> None:
    app = App(url)

    @app.task
    def mail(to: str) -> None: ...

    with psycopg.connect(url) as own:
        job_id = mail.options(connection=own).enqueue_sync(to="Ada")
        assert app.list_sync().jobs == ()
    (stands,) = app.list_sync().jobs
    app.close_sync()

    assert (stands.id, stands.payload) == (job_id, {"to": "Ada"})
