"""Connections to Postgres: opened when needed, checked, bounded, and never left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
import pytest

from rowlock import Filter
from rowlock._errors import (
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from rowlock._job import NewJob
from rowlock.stores import connect
from rowlock.stores.postgres import PostgresStore, figures, read
from rowlock.stores.postgres.pool import LARGEST
from rowlock.stores.postgres.sessions import Session
from tests.cluster.databases import Databases
from tests.cluster_fixtures import FreshDatabase, OwnCluster
from tests.eventually import eventually
from tests.workers import ROOT

JOB = NewJob(task="mail", queue="default", payload="{}")


def sessions(url: str) -> list[tuple[Any, ...]]:
    """Read who is connected to a database, but for the asker."""
    with psycopg.connect(url, autocommit=True) as own:
        return own.execute(
            "SELECT pid, application_name, state FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()


def terminate(url: str) -> None:
    """End every session of the store."""
    with psycopg.connect(url, autocommit=True) as own:
        own.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'rowlock'"
        )


async def test_a_session_is_set_up_whatever_the_database_says(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as own:
        for name, value in (
            ("default_transaction_isolation", "serializable"),
            ("default_transaction_read_only", "on"),
            ("search_path", "nowhere"),
            ("timezone", "Asia/Tokyo"),
            ("datestyle", "German"),
            ("intervalstyle", "iso_8601"),
            ("array_nulls", "off"),
            ("extra_float_digits", "0"),
            ("lock_timeout", "0"),
            ("enable_indexscan", "off"),
        ):
            database = own.info.dbname
            own.execute(f'ALTER DATABASE "{database}" SET {name} = "{value}"')
    store = connect(url)
    await store.open()

    exact = replace(JOB, timeout=0.12345678901234568, idempotency_key="k")
    ids = await store.enqueue([JOB, exact])

    assert None not in ids
    (job, other) = await store.get([job_id or 0 for job_id in ids])
    assert (job.timeout, other.timeout) == (None, exact.timeout)
    assert (job.idempotency_key, other.idempotency_key) == (None, "k")
    assert job.created_at.utcoffset() is not None
    assert str(job.created_at.tzinfo) == "UTC"
    await store.close()


async def test_nothing_is_open_before_the_first_call_nor_after_the_close(
    url: str,
) -> None:
    store = connect(url)
    assert sessions(url) == []

    await store.open()
    await store.enqueue([JOB])
    assert [name for _, name, _ in sessions(url)] == ["rowlock"]

    await store.close()
    assert sessions(url) == []


async def test_a_crowd_shares_a_bounded_number_of_connections(
    store: PostgresStore, url: str
) -> None:
    ids = await asyncio.gather(*(store.enqueue([JOB]) for _ in range(200)))

    assert len({job_id for (job_id,) in ids}) == 200
    assert len(sessions(url)) <= LARGEST


@pytest.mark.parametrize("what", ["finish", "settled"])
async def test_a_worker_goes_before_those_who_wait_already(
    store: PostgresStore, url: str, what: str
) -> None:
    order: list[str] = []

    async def note(what: str, waiting: Any) -> None:  # noqa: ANN401 - any call
        await waiting
        order.append(what)

    with psycopg.connect(url) as own:
        own.execute("LOCK TABLE rowlock.live IN EXCLUSIVE MODE")
        crowd = [
            asyncio.create_task(note("enqueue", store.enqueue([JOB])))
            for _ in range(LARGEST + 200)
        ]
        # Real: the first ones have to have met the lock.
        await asyncio.sleep(0.2)
        call = store.finish([]) if what == "finish" else store.lent.settled([])
        worker = asyncio.create_task(note("worker", call))
        await asyncio.sleep(0.1)  # real: it has to wait as well
        own.rollback()
    await asyncio.gather(*crowd, worker)

    # Whose statement is slow at its first time, beside those of nine others.
    assert order.index("worker") < LARGEST + 100


async def test_connections_that_ended_while_idle_are_noticed_before_use(
    store: PostgresStore, url: str
) -> None:
    await asyncio.gather(*(store.enqueue([JOB]) for _ in range(20)))

    terminate(url)

    assert len(await asyncio.gather(*(store.enqueue([JOB]) for _ in range(20)))) == 20


async def test_law_15_a_connection_that_breaks_in_the_middle_leaves_it_unknown(
    store: PostgresStore, url: str
) -> None:
    with psycopg.connect(url, autocommit=True) as own:
        own.execute(
            "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(10); RETURN NEW; END $$"
        )
        own.execute(
            "CREATE TRIGGER dawdle BEFORE INSERT ON rowlock.live"
            " FOR EACH ROW EXECUTE FUNCTION dawdle()"
        )
        enqueueing = asyncio.create_task(store.enqueue([JOB]))
        await asyncio.sleep(0.3)  # real: the insert has to have begun
        await asyncio.to_thread(terminate, url)

        with pytest.raises(OutcomeUnknown, match="idempotency key"):
            await enqueueing
        own.execute("DROP TRIGGER dawdle ON rowlock.live")

    assert (await store.list(Filter())).jobs == ()
    assert None not in await store.enqueue([JOB])


async def begin(session: Session) -> None:
    async with session.transaction():
        pass


@pytest.mark.parametrize(
    "run",
    [begin, figures.stats, partial(read.get, ids=[1])],
    ids=["begin", "stats", "get"],
)
async def test_law_15_a_connection_that_breaks_before_a_write_leaves_nothing_unknown(
    store: PostgresStore, url: str, run: Callable[[Session], Awaitable[object]]
) -> None:
    session = await store._database.connect()
    await asyncio.to_thread(terminate, url)

    with pytest.raises(StoreUnavailable):
        await run(session)
    await session.close()


async def test_a_cancelled_call_goes_on_and_its_caller_does_not_wait(
    store: PostgresStore, url: str
) -> None:
    with psycopg.connect(url) as own:
        own.execute("LOCK TABLE rowlock.live IN EXCLUSIVE MODE")
        calls = [asyncio.create_task(store.enqueue([JOB])) for _ in range(30)]
        await asyncio.sleep(0.2)  # real: they have to have met the lock
        for call in calls:
            call.cancel()
        async with asyncio.timeout(0.1):
            await asyncio.wait(calls)
        assert all(call.cancelled() for call in calls)

    assert len(await asyncio.gather(*(store.enqueue([JOB]) for _ in range(30)))) == 30

    async def all_are_there() -> bool:
        return len((await store.list(Filter())).jobs) == 60

    # The last of those that were cancelled may end after all that were called later.
    await eventually(all_are_there)


async def test_a_close_does_not_wait_for_a_call_that_never_began(
    store: PostgresStore,
) -> None:
    enqueueing = asyncio.create_task(store.enqueue([JOB]))
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.wait([enqueueing])

    await asyncio.wait_for(store.close(), 1)


async def test_a_migration_that_changes_a_type_costs_a_connection_one_failure(
    store: PostgresStore, url: str
) -> None:
    (job_id,) = await store.enqueue([JOB])
    await store.get([job_id or 0])
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("DROP VIEW rowlock.jobs")
        own.execute("ALTER TABLE rowlock.live ALTER claims TYPE bigint")

    with pytest.raises(StoreUnavailable, match="was prepared before"):
        await store.get([job_id or 0])

    assert [job.id for job in await store.get([job_id or 0])] == [job_id]


async def test_each_loop_has_connections_of_its_own_which_end_with_it(
    store: PostgresStore, url: str
) -> None:
    before = len(sessions(url))
    counts: list[int] = []

    async def enqueue() -> None:
        await store.enqueue([JOB])
        counts.append(len(sessions(url)))

    thread = threading.Thread(target=lambda: asyncio.run(enqueue()))
    thread.start()
    thread.join()

    assert counts == [before + 1]
    # The server hears of the end a moment later.
    await eventually(lambda: len(sessions(url)) == before)
    assert len((await store.list(Filter())).jobs) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_leaves_its_parents_connections_alone(url: str) -> None:
    done = subprocess.run(
        # Python 3.12 warns of any fork beside threads, which this is about.
        [
            sys.executable,
            "-W",
            "ignore:This process",
            "-m",
            "tests.programs.forks",
            url,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


async def test_a_restart_of_the_server_is_outlived(own_cluster: OwnCluster) -> None:
    cluster = own_cluster()
    store = connect(cluster.url)
    await store.migrate()
    await store.open()
    await store.enqueue([JOB])

    cluster.stop("immediate")
    with pytest.raises(StoreUnavailable, match="out of reach"):
        await store.enqueue([JOB])
    cluster.start()

    assert None not in await store.enqueue([JOB])
    assert len((await store.list(Filter())).jobs) == 2
    await store.close()


@pytest.mark.parametrize("what", ["CONNECTION LIMIT 0", "PASSWORD 'changed'"])
async def test_what_is_wrong_after_a_store_was_opened_may_pass(
    fresh_database: FreshDatabase, databases: Databases, what: str
) -> None:
    if databases.cluster is None and what.startswith("PASSWORD"):
        pytest.skip("a server given by its URL may let everybody in")
    url = fresh_database(empty=True)
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("DROP ROLE IF EXISTS limited")
        own.execute("CREATE ROLE limited LOGIN PASSWORD 'p'")
        own.execute("CREATE SCHEMA rowlock AUTHORIZATION limited")
        name = own.info.dbname
        theirs = f"postgresql://limited:p@127.0.0.1:{own.info.port}/{name}"
        store = connect(theirs)
        await store.migrate()
        await store.open()
        own.execute(f"ALTER ROLE limited {what}")
        await asyncio.to_thread(terminate, url)

        with pytest.raises(StoreUnavailable):
            await store.enqueue([JOB])

        own.execute("ALTER ROLE limited CONNECTION LIMIT -1 PASSWORD 'p'")
        assert await store.enqueue([JOB]) == (1,)
    await store.close()


@pytest.mark.parametrize("schema", ["jobs", "My Jobs", 'a"b', "it's 100% {schema}"])
async def test_a_schema_may_have_any_name(
    fresh_database: FreshDatabase, schema: str
) -> None:
    plain = fresh_database(empty=True)
    store = connect(f"{plain}?schema={schema.replace('%', '%25')}")
    await store.migrate()
    await store.open()

    ids = await store.enqueue([JOB, JOB])

    assert [job.id for job in (await store.list(Filter())).jobs] == [2, 1]
    assert ids == (1, 2)
    assert (await store.stats()).queues[0].due == 2
    await store.close()
    with psycopg.connect(plain) as own:
        (found,) = own.execute(
            "SELECT count(*) FROM pg_namespace WHERE nspname = %s", (schema,)
        ).fetchone() or (0,)
    assert found == 1


async def test_two_schemas_of_one_database_know_nothing_of_each_other(
    fresh_database: FreshDatabase,
) -> None:
    url = fresh_database()
    store, other = connect(url), connect(f"{url}?schema=other")
    await other.migrate()
    await store.open()
    await other.open()

    await store.enqueue([JOB])

    assert (await other.list(Filter())).jobs == ()
    assert len((await store.list(Filter())).jobs) == 1
    await store.close()
    await other.close()


async def test_what_the_server_refuses_is_no_outage(
    store: PostgresStore, url: str
) -> None:
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("ALTER TABLE rowlock.live ADD CHECK (task <> 'poison')")

    with pytest.raises(StoreError, match="refused") as error:
        await store.enqueue([NewJob(task="poison", queue="q", payload="{}")])

    assert not isinstance(error.value, StoreUnavailable)
