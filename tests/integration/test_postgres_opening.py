"""A database that can't be opened: each reason has a sentence that says what to do."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from rowlock import App
from rowlock._errors import ConfigError, SchemaMismatch, StoreUnavailable
from rowlock.stores import connect
from tests.cluster.databases import Databases, with_database
from tests.cluster_fixtures import FreshDatabase


async def test_a_server_out_of_reach_is_told_in_a_sentence() -> None:
    with pytest.raises(StoreUnavailable, match="check that it runs"):
        await connect("postgresql://ada@127.0.0.1:1/shop").open()


async def test_a_wrong_password_is_told_without_it(databases: Databases) -> None:
    if databases.cluster is None:
        pytest.skip("a server given by its URL may let everybody in")
    wrong = with_database(
        databases.cluster.url.replace(databases.cluster.password, "secret"), "postgres"
    )

    with pytest.raises(ConfigError, match="refuses the user or the password") as error:
        await connect(wrong).open()

    assert "secret" not in str(error.value)


async def test_a_database_that_is_not_there_is_told(databases: Databases) -> None:
    url = with_database(databases.admin_url, "nowhere")

    with pytest.raises(ConfigError, match="createdb"):
        await connect(url).open()


async def test_a_database_that_was_never_migrated_is_told(
    fresh_database: FreshDatabase,
) -> None:
    url = fresh_database(empty=True)

    for call in (App(url).stats, App(url).open):
        with pytest.raises(SchemaMismatch, match="rowlock migrate"):
            await call()


def test_so_it_is_where_the_first_call_joins_a_users_transaction(
    fresh_database: FreshDatabase,
) -> None:
    url = fresh_database(empty=True)
    app = App(url)

    @app.task
    def note() -> None: ...

    async def on_an_async_one() -> None:
        async with await psycopg.AsyncConnection.connect(url) as own:
            with pytest.raises(SchemaMismatch, match="rowlock migrate"):
                await note.options(connection=own).enqueue()

    with psycopg.connect(url) as own:
        own.execute("CREATE TABLE orders (id integer)")
        with pytest.raises(SchemaMismatch, match="rowlock migrate"):
            note.options(connection=own).enqueue_sync()
        # Nothing of ours came into it, and it lives.
        own.execute("INSERT INTO orders VALUES (1)")
    asyncio.run(on_an_async_one())
    app.close_sync()


async def test_a_user_who_may_not_make_the_schema_is_told_what_the_owner_runs(
    fresh_database: FreshDatabase,
) -> None:
    url = fresh_database(empty=True)
    with psycopg.connect(url, autocommit=True) as own:
        own.execute('DROP ROLE IF EXISTS "app\'s Ada"')
        own.execute("CREATE ROLE \"app's Ada\" LOGIN PASSWORD 'p'")
        port = own.info.port
    theirs = with_database(
        f"postgresql://app%27s%20Ada:p@127.0.0.1:{port}/x", url.rpartition("/")[2]
    )

    store = connect(f"{theirs}?schema=100%25")
    with pytest.raises(ConfigError) as error:
        await store.migrate()
    allowed = 'CREATE SCHEMA IF NOT EXISTS "100%" AUTHORIZATION "app\'s Ada";'
    assert allowed in str(error.value)

    with psycopg.connect(url, autocommit=True) as own:
        own.execute(allowed)
    assert len(await store.migrate()) > 0
    await store.open()
    await store.close()


async def test_a_user_who_may_not_read_the_schema_is_told(
    fresh_database: FreshDatabase,
) -> None:
    url = fresh_database()
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("DROP ROLE IF EXISTS stranger")
        own.execute("CREATE ROLE stranger LOGIN PASSWORD 'p'")
        port = own.info.port
    theirs = f"postgresql://stranger:p@127.0.0.1:{port}/{url.rpartition('/')[2]}"

    with pytest.raises(ConfigError, match="stranger"):
        await connect(theirs).open()
