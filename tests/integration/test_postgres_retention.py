"""Old days of the history on Postgres: they go whole, and nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import NewJob, Status
from rowlock._store import Demand, Pruned, Retention
from rowlock.stores.postgres import PostgresStore, retention
from rowlock.testing import FakeClock
from tests.cluster.databases import Databases
from tests.cluster_fixtures import FreshDatabase
from tests.eventually import eventually

from .postgres_given import opened

LEASE = timedelta(days=30)
DAY = timedelta(days=1)
MANY = 20_000
FIRST_DAY = "history_20260101"


@pytest.fixture
async def store(url: str, clock: FakeClock) -> AsyncIterator[PostgresStore]:
    """An open store on it, whose time the test moves."""
    async with opened(url, clock=clock) as store:
        yield store


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PATIENCE", timedelta(seconds=1))


async def claimed(store: PostgresStore, count: int) -> list[Any]:
    await store.enqueue([NewJob(task="mail", queue="default", payload="{}")] * count)
    demand = Demand(total=count, tasks=frozenset({"mail"}))
    return list((await store.claim(demand, worker="w", lease=LEASE)).claims)


def tables(url: str) -> dict[str, str]:
    """Tell of each partition, attached or not, how it stands."""
    with psycopg.connect(url) as own:
        found = own.execute(
            "SELECT relname, CASE inhdetachpending WHEN false THEN 'attached'"
            " WHEN true THEN 'pending' ELSE 'detached' END"
            " FROM pg_class LEFT JOIN pg_inherits ON inhrelid = oid"
            " WHERE relname ~ '^history_[0-9]+$' AND relkind = 'r'"
        ).fetchall()
        return dict(found)


def fill(url: str, clock: FakeClock, count: int = MANY) -> None:
    """Let many jobs have succeeded now."""
    with psycopg.connect(url) as own:
        own.execute("SELECT rowlock.make_partition(%s)", (clock.now().date(),))
        own.execute(
            "INSERT INTO rowlock.history (id, run_at, created_at, started_at,"
            " finished_at, updated_at, priority, max_attempts, status, queue, task,"
            " payload) SELECT 1000000 + n, at, at, at, at, at, 0, 3, 'succeeded',"
            " 'default', 'mail', to_json(repeat('x', 300))"
            " FROM generate_series(1, %s) AS n, (SELECT %s::timestamptz AS at) AS now",
            (count, clock.now()),
        )
        own.execute("ANALYZE rowlock.history")


@contextmanager
def reading(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Have a reader who has seen the jobs, and stays in his transaction."""
    with psycopg.connect(url, application_name="report") as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM rowlock.jobs")
        yield reader
        reader.rollback()


async def finishing_beside(
    store: PostgresStore, pruning: asyncio.Task[Pruned]
) -> list[float]:
    """Finish jobs one by one until the pruning is over; how long each took."""
    took: list[float] = []
    while not pruning.done():
        (held,) = await claimed(store, 1)
        began = time.monotonic()
        (settled,) = await store.finish([_outcome.succeeded(held.key)])
        took.append(time.monotonic() - began)
        assert settled.accepted
    return sorted(took)


def assert_nobody_waited(took: list[float]) -> None:
    """A finish that waits would wait for the reader, and be refused after a second."""
    assert len(took) > 5
    assert took[len(took) * 9 // 10] < 0.1
    assert took[-1] < 0.9


async def test_a_day_of_many_jobs_is_dropped_whole(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    fill(url, clock)
    clock.advance(3.9 * DAY)
    assert await store.prune(Retention(), limit=10) == Pruned(expired=0, deleted=0)

    clock.advance(DAY)
    pruned = await store.prune(Retention(), limit=10)

    # By the statistics, not one by one.
    assert 0.9 * MANY < pruned.deleted < 1.1 * MANY
    assert FIRST_DAY not in tables(url)
    assert set(tables(url).values()) == {"attached"}


async def test_a_day_of_few_jobs_is_emptied_within_the_limit_and_then_dropped(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    await store.finish([_outcome.succeeded(h.key) for h in await claimed(store, 5)])
    clock.advance(5 * DAY)

    deleted = [(await store.prune(Retention(), limit=2)).deleted for _ in range(3)]

    assert deleted == [2, 2, 1]
    assert FIRST_DAY not in tables(url)


async def test_of_a_mixed_day_what_is_kept_for_longer_stays(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    fill(url, clock)
    (held,) = await claimed(store, 1)
    await store.finish([_outcome.cancelled(held.key)])
    clock.advance(5 * DAY)
    longer = Retention(cancelled=30 * DAY)

    assert (await store.prune(longer, limit=2 * MANY)).deleted == MANY
    assert [job.id for job in (await store.list(Filter())).jobs] == [held.job_id]
    clock.advance(30 * DAY)
    await store.prune(longer, limit=10)

    assert (await store.list(Filter())).jobs == ()
    assert FIRST_DAY not in tables(url)


async def test_a_reader_stops_a_drop_and_no_finish_and_is_named(
    store: PostgresStore,
    url: str,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "rowlock.store")
    fill(url, clock)
    await store.finish([_outcome.succeeded(h.key) for h in await claimed(store, 2)])
    clock.advance(5 * DAY)
    with reading(url) as reader:
        for state in ("pending", "pending"):
            # The first is stopped in its detach, the second in what ends that.
            pruning = asyncio.create_task(store.prune(Retention(), limit=10))
            assert_nobody_waited(await finishing_beside(store, pruning))
            assert (await pruning).deleted == 0
            assert tables(url)[FIRST_DAY] == state
        assert reader.execute("SELECT count(*) FROM rowlock.jobs").fetchone() == (
            MANY + 2,
        )
        # What goes is seen by nobody who comes later.
        assert (await store.list(Filter(status=Status.SUCCEEDED), limit=9999)).jobs
        pid = reader.info.backend_pid
    first, second = [record.getMessage() for record in caplog.records]
    for line in (first, second):
        assert f"session {pid} (user postgres, report, from 127.0.0.1" in line
        assert FIRST_DAY in line
        assert "\n" not in line

    assert (await store.prune(Retention(), limit=10)).deleted >= MANY
    assert set(tables(url).values()) == {"attached"}


async def test_a_dump_stops_a_drop_and_no_finish(
    store: PostgresStore,
    url: str,
    clock: FakeClock,
    databases: Databases,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if (
        databases.cluster is None
        or not (program := databases.cluster.programs / "pg_dump").exists()
    ):
        pytest.skip("there is no pg_dump beside this server")
    caplog.set_level(logging.WARNING, "rowlock.store")
    fill(url, clock)
    clock.advance(5 * DAY)
    # Nobody reads what it writes, so it stands in the middle, with all its locks.
    dump = await asyncio.create_subprocess_exec(
        program, url, stdout=asyncio.subprocess.PIPE
    )

    async def stands() -> bool:
        with psycopg.connect(url, autocommit=True) as own:
            return own.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname ="
                " current_database() AND application_name = 'pg_dump'"
                " AND wait_event = 'ClientWrite'"
            ).fetchone() == (1,)

    await eventually(stands)
    pruning = asyncio.create_task(store.prune(Retention(), limit=10))
    assert_nobody_waited(await finishing_beside(store, pruning))
    assert "pg_dump" in caplog.text

    dumped, _ = await dump.communicate()
    assert dump.returncode == 0
    assert dumped.count(b"x" * 300) == MANY
    assert (await store.prune(Retention(), limit=10)).deleted >= MANY
    assert FIRST_DAY not in tables(url)


async def test_what_an_interrupted_pruning_left_is_gone_with_the_next(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    await store.finish([_outcome.succeeded(h.key) for h in await claimed(store, 2)])
    clock.advance(5 * DAY)
    with psycopg.connect(url, autocommit=True) as own:
        # Killed after the detach: the mark says that it is ours.
        own.execute(f"COMMENT ON TABLE rowlock.{FIRST_DAY} IS 'to be dropped'")
        own.execute(f"ALTER TABLE rowlock.history DETACH PARTITION rowlock.{FIRST_DAY}")
        # Detached by somebody to be kept.
        own.execute("SELECT rowlock.make_partition('2026-01-02')")
        own.execute(
            "ALTER TABLE rowlock.history DETACH PARTITION rowlock.history_20260102"
        )

    await store.prune(Retention(), limit=10)

    assert FIRST_DAY not in tables(url)
    assert tables(url)["history_20260102"] == "detached"


async def test_a_detach_whose_session_is_killed_is_ended_by_the_next_pruning(
    store: PostgresStore, url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PATIENCE", timedelta(seconds=20))
    fill(url, clock)
    clock.advance(5 * DAY)
    with reading(url), psycopg.connect(url, autocommit=True) as own:
        pruning = asyncio.create_task(store.prune(Retention(), limit=10))

        async def is_killed() -> bool:
            return bool(
                own.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                    " datname = current_database() AND wait_event_type = 'Lock'"
                    " AND query LIKE '%DETACH%CONCURRENTLY%'"
                ).fetchall()
            )

        await eventually(is_killed)
        # What it had written stands, and it says so.
        assert await pruning == Pruned(expired=0, deleted=0)
        assert tables(url)[FIRST_DAY] == "pending"

    assert (await store.prune(Retention(), limit=10)).deleted >= MANY
    assert FIRST_DAY not in tables(url)


async def test_two_processes_prune_at_once_and_each_day_goes_once(
    store: PostgresStore, url: str, clock: FakeClock
) -> None:
    other = PostgresStore.from_url(url, clock=clock)
    await other.open()
    fill(url, clock)
    clock.advance(20 * DAY)

    answers = await asyncio.gather(
        *(each.prune(Retention(), limit=10) for each in (store, other) * 3)
    )

    assert 0.9 * MANY < sum(answer.deleted for answer in answers) < 1.1 * MANY
    assert set(tables(url).values()) == {"attached"}
    await other.close()


async def test_a_close_does_not_wait_for_a_detach(
    url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PATIENCE", timedelta(seconds=20))
    fill(url, clock)
    clock.advance(5 * DAY)
    store = PostgresStore.from_url(url, clock=clock)
    await store.open()
    with reading(url):
        pruning = asyncio.create_task(store.prune(Retention(), limit=10))
        await eventually(lambda: tables(url)[FIRST_DAY] == "pending")
        pruning.cancel()
        began = time.monotonic()

        await store.close()

        assert time.monotonic() - began < 5


@pytest.mark.parametrize("age", [timedelta(0), timedelta(hours=2)])
async def test_a_retention_below_a_day_is_kept_to_the_second(
    store: PostgresStore, clock: FakeClock, age: timedelta
) -> None:
    short = Retention(succeeded=age, cancelled=age, failed=age)
    (held,) = await claimed(store, 1)
    await store.finish([_outcome.succeeded(held.key)])
    if age:
        clock.advance(age - timedelta(seconds=1))
        assert (await store.prune(short, limit=10)).deleted == 0
        clock.advance(1)

    assert (await store.prune(short, limit=10)).deleted == 1


async def test_a_direct_url_to_another_database_drops_nothing_there(
    url: str,
    fresh_database: FreshDatabase,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As where tests have a database of their own, and production's environment."""
    elsewhere = fresh_database()
    monkeypatch.setenv("DATABASE_DIRECT_URL", elsewhere)
    store = PostgresStore.from_url(url, clock=clock)
    await store.open()
    fill(url, clock)
    fill(elsewhere, clock)
    clock.advance(5 * DAY)

    await store.prune(Retention(), limit=10)
    await store.close()

    assert FIRST_DAY in tables(elsewhere)
    assert "DATABASE_DIRECT_URL leads to another database" in caplog.text
