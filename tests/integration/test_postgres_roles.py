"""Who may do what: an owner migrates, a worker works, a producer calls functions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg import errors as pg

from rowlock import App, ConfigError, Retention, Status
from rowlock.stores.postgres import PostgresStore
from rowlock.stores.postgres.migrate import all_migrations, migrate
from tests.eventually import eventually
from tests.migrations import NEWEST, later, with_later

from .roles import Cast, Role, cast

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

# All that a role may do with what there is in the schema, whoever gave it the right.
RIGHTS = """
    SELECT 'call ' || proname FROM pg_proc
    WHERE pronamespace = 'rowlock'::regnamespace
        AND has_function_privilege(%(role)s, oid, 'EXECUTE')
    UNION
    SELECT 'use ' || relname FROM pg_class
    WHERE relnamespace = 'rowlock'::regnamespace
        AND CASE relkind
            WHEN 'S' THEN has_sequence_privilege(%(role)s, oid, 'USAGE, SELECT, UPDATE')
            WHEN 'i' THEN false
            WHEN 'I' THEN false
            ELSE has_any_column_privilege(
                    %(role)s, oid, 'SELECT, INSERT, UPDATE, REFERENCES'
                )
                OR has_table_privilege(%(role)s, oid, 'DELETE, TRUNCATE, TRIGGER')
        END
    UNION
    SELECT privilege FROM unnest(ARRAY['USAGE', 'CREATE']) AS privilege
    WHERE has_schema_privilege(%(role)s, 'rowlock', privilege)
"""


@pytest.fixture
def them(each_empty_url: str) -> Iterator[Cast]:
    """The roles on a database with nothing in it."""
    with cast(each_empty_url) as them:
        yield them


@pytest.fixture
async def migrated(them: Cast) -> Cast:
    """The same, after the owner has migrated it and granted the roles."""
    await PostgresStore.from_url(them.owner.url).migrate(
        worker_role=them.worker.name, producer_roles=[them.producer.name]
    )
    return them


@pytest.fixture
async def app(migrated: Cast) -> AsyncIterator[App]:
    """A worker's app."""
    async with App(migrated.worker.url) as app:

        @app.task(max_attempts=1)
        async def mail(n: int = 0) -> int:
            if n < 0:
                raise ValueError(n)
            return n

        yield app


def connected(role: Role) -> Connection:
    return psycopg.connect(role.url, autocommit=True)


def one(own: Connection, query: str) -> Any:  # noqa: ANN401 - any column
    row = own.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def rights(them: Cast, role: Role) -> set[str]:
    with psycopg.connect(them.admin) as own:
        return {right for (right,) in own.execute(RIGHTS, {"role": role.name})}


def refused(own: Connection, statement: str) -> None:
    with pytest.raises(pg.InsufficientPrivilege):
        own.execute(statement.encode())


def test_a_producer_may_call_the_functions_and_nothing_else(migrated: Cast) -> None:
    with connected(migrated.producer) as own, connected(migrated.owner) as owner:
        made = one(own, "SELECT rowlock.enqueue('mail', '{\"n\": 1}')")
        assert one(own, f"SELECT rowlock.cancel({made})") == "done"
        assert one(own, f"SELECT rowlock.replay({made})") == "done"
        assert one(own, "SELECT rowlock.once('k')") is True

        refused(own, "SELECT FROM rowlock.jobs")
        refused(own, "SELECT rowlock.grant_worker('producer')")
        refused(own, "CREATE TABLE rowlock.mine ()")
        assert one(owner, "SELECT status FROM rowlock.jobs") == "pending"
    assert rights(migrated, migrated.producer) == {
        "USAGE",
        "call enqueue",
        "call cancel",
        "call replay",
        "call once",
    }


def test_nobody_else_may_do_anything(migrated: Cast) -> None:
    with connected(migrated.stranger) as own:
        refused(own, "SELECT rowlock.enqueue('mail')")
        refused(own, "SELECT FROM rowlock.jobs")
    assert rights(migrated, migrated.stranger) == set()


async def test_a_stranger_who_opens_an_app_is_told_what_the_owner_runs(
    migrated: Cast,
) -> None:
    async with App(migrated.owner.url) as app:
        assert (await app.stats()).queues == ()
    with pytest.raises(ConfigError) as refusal:
        await App(migrated.stranger.url).stats()

    said = str(refusal.value)
    assert migrated.owner.name in said
    run = said.partition("or `")[2].partition("`")[0]
    with connected(migrated.owner) as own, psycopg.connect(migrated.admin) as admin:
        admin.execute(
            f'GRANT "{migrated.stranger.name}" TO "{migrated.owner.name}"'.encode()
        )
        admin.commit()
        own.execute(run.encode())
    async with App(migrated.stranger.url) as app:
        assert (await app.stats()).queues == ()


async def test_a_worker_lives_its_whole_life(app: App, migrated: Cast) -> None:
    task = app.find_task("mail")
    good, bad, late = await app.enqueue_many(
        [task.job(n=1), task.job(n=-1), task.options(delay=3600).job(n=2)]
    )
    assert good is not None
    assert bad is not None
    assert late is not None
    async with app.worker():

        async def are_done() -> bool:
            return all([(await app.get(each)).status.is_final for each in (good, bad)])

        await eventually(are_done, within=20)
    with connected(migrated.worker) as own:
        assert one(own, "SELECT count(*) FROM rowlock.jobs") == 3
        with pytest.raises(pg.ObjectNotInPrerequisiteState, match="read-only"):
            own.execute("DELETE FROM rowlock.jobs")

    assert (await app.get(bad)).status is Status.FAILED
    assert [str(each) for each in await app.replay(bad)] == ["done"]
    assert [str(each) for each in await app.cancel([bad, late])] == ["done", "done"]
    assert [str(each) for each in await app.replay(late)] == ["done"]
    assert [str(each) for each in await app._store.delete([good])] == ["done"]
    pruned = await app._store.prune(Retention(cancelled=timedelta(0)), limit=10)
    assert pruned.deleted == 1
    assert [job.id for job in (await app.list()).jobs] == [late]


async def test_a_worker_makes_and_drops_partitions_whoever_made_them(
    app: App, migrated: Cast
) -> None:
    with connected(migrated.owner) as own:
        assert one(own, "SELECT rowlock.make_partition('2000-01-01')") is True
    with connected(migrated.worker) as own:
        assert one(own, "SELECT rowlock.make_partition('2000-01-02')") is True
        owners = own.execute(
            "SELECT DISTINCT relowner::regrole::text FROM pg_inherits"
            " JOIN pg_class ON pg_class.oid = inhrelid"
            " WHERE inhparent = 'rowlock.history'::regclass"
        ).fetchall()
        assert owners == [(f'"{migrated.worker.name}"',)]

        await app._store.prune(Retention(), limit=10)

        assert one(own, "SELECT to_regclass('rowlock.history_20000101')") is None
        assert one(own, "SELECT to_regclass('rowlock.history_20000102')") is None
    assert (await app.stats()).queues == ()


async def test_a_worker_cant_migrate(migrated: Cast) -> None:
    store = PostgresStore.from_url(migrated.worker.url)
    assert await store.migrate() == ()

    known = with_later(later("CREATE TABLE {schema}.extra (id bigint PRIMARY KEY);"))
    async with store._apart() as session:
        with pytest.raises(ConfigError) as refusal:
            await migrate(session, "rowlock", store.url, known)

    assert f"migrate as {migrated.owner.name}" in str(refusal.value)
    assert "rowlock migrate --sql" in str(refusal.value)
    with connected(migrated.owner) as own:
        assert one(own, "SELECT to_regclass('rowlock.extra')") is None
        assert one(own, "SELECT count(*) FROM rowlock.migrations") == NEWEST


async def test_what_a_migration_brings_is_granted_to_the_roles_there_are(
    migrated: Cast,
) -> None:
    # As what is new would be: the roles have no right to it yet.
    with connected(migrated.owner) as own:
        for role in (migrated.worker, migrated.producer):
            own.execute(
                f'REVOKE ALL ON FUNCTION rowlock.replay FROM "{role.name}"'.encode()
            )
    store = PostgresStore.from_url(migrated.owner.url)

    async with store._apart() as session:
        known = with_later(later("SELECT;"))
        await migrate(session, "rowlock", store.url, known)

    for role in (migrated.worker, migrated.producer):
        with connected(role) as own:
            assert one(own, "SELECT rowlock.replay(1)") == "not found"


async def test_granting_again_changes_nothing(migrated: Cast) -> None:
    def all_rights() -> list[tuple[Any, ...]]:
        with connected(migrated.owner) as own:
            return own.execute(
                "SELECT relname, relowner, relacl::text FROM pg_class"
                " WHERE relnamespace = 'rowlock'::regnamespace ORDER BY relname"
            ).fetchall()

    before = all_rights()
    await PostgresStore.from_url(migrated.owner.url).migrate(
        worker_role=migrated.worker.name, producer_roles=[migrated.producer.name]
    )

    assert all_rights() == before


async def test_a_role_that_is_not_there_is_told_and_nothing_is_applied(
    them: Cast,
) -> None:
    store = PostgresStore.from_url(them.owner.url)

    with pytest.raises(ConfigError, match=r'no role "no body".*CREATE ROLE "no body"'):
        await store.migrate(producer_roles=["no body"])

    assert len(await store.migrate(dry_run=True)) == len(all_migrations())


async def test_an_owner_who_is_no_member_of_the_workers_role_is_told(
    them: Cast,
) -> None:
    store = PostgresStore.from_url(them.owner.url)

    with pytest.raises(ConfigError) as refusal:
        await store.migrate(worker_role=them.stranger.name)
    said = str(refusal.value)
    assert f'run GRANT "{them.stranger.name}" TO "{them.owner.name}" first' in said

    with psycopg.connect(them.admin, autocommit=True) as admin:
        admin.execute(said.partition("run ")[2].partition(" first")[0].encode())
    assert len(await store.migrate(worker_role=them.stranger.name)) > 0


async def test_an_owner_who_is_no_member_any_more_is_told(migrated: Cast) -> None:
    with psycopg.connect(migrated.admin, autocommit=True) as admin:
        admin.execute(
            f'REVOKE "{migrated.worker.name}" FROM "{migrated.owner.name}"'.encode()
        )
    store = PostgresStore.from_url(migrated.owner.url)

    async with store._apart() as session:
        with pytest.raises(ConfigError, match="a member of the role that does"):
            await migrate(session, "rowlock", store.url, with_later())


def test_what_acts_as_the_owner_has_a_search_path_of_its_own(migrated: Cast) -> None:
    with connected(migrated.owner) as own:
        astray = own.execute(
            "SELECT oid::regprocedure::text FROM pg_proc"
            " WHERE pronamespace = 'rowlock'::regnamespace AND prosecdef"
            " AND NOT 'search_path=pg_catalog, pg_temp' = ANY (proconfig)"
        ).fetchall()
        acting = one(own, "SELECT count(*) FROM pg_proc WHERE prosecdef")
    assert astray == []
    assert acting == 6


def test_a_producers_search_path_leads_nobody_astray(migrated: Cast) -> None:
    with connected(migrated.producer) as own:
        own.execute("CREATE TEMP TABLE tasks (name text, queue text, defaults json)")
        own.execute("CREATE TEMP TABLE pg_proc (n integer)")
        own.execute("SET search_path = pg_temp, rowlock")

        made = one(own, "SELECT rowlock.enqueue('mail')")

    with connected(migrated.owner) as owner:
        assert one(owner, "SELECT id FROM rowlock.jobs") == made
