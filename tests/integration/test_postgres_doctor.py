"""The doctor on Postgres: each illness is a real one, and is cured by what it says."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from rowlock import App, Retention, StoreUnavailable
from rowlock._clock import Clock
from rowlock.stores.postgres import PostgresStore
from rowlock.testing import FakeClock

from . import crowds
from .ills import MANY_TRANSACTIONS, cure, cures, examine, ill, only
from .postgres_given import job

Connection = psycopg.Connection[tuple[Any, ...]]

# What the tests' servers do without, for speed.
UNSAFE = {"fsync", "full_page_writes"}


@pytest.fixture
def snapshot(each_url: str) -> Iterator[Connection]:
    """A user's connection that sees the database as it is now, until it ends."""
    with psycopg.connect(each_url, application_name="reports") as user:
        user.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        user.execute("SELECT count(*) FROM rowlock.jobs")
        yield user


@asynccontextmanager
async def working(url: str, *, clock: Clock | None = None) -> AsyncIterator[None]:
    """Have a worker with the task `mail` at work on a database."""
    app = App(url, clock=clock)

    @app.task
    def mail() -> None: ...

    async with app, app.worker():
        yield


async def test_a_fresh_database_is_well(each_url: str) -> None:
    findings = await examine(each_url)

    assert len({finding.about for finding in findings}) >= 11
    assert {finding.what.split()[0] for finding in ill(findings)} == UNSAFE
    assert all(finding.what.endswith(".") for finding in findings)
    assert all(bool(each.cure) == (each.severity != "ok") for each in findings)


async def test_what_is_wrong_comes_first_and_what_is_well_last(each_url: str) -> None:
    findings = await examine(each_url)

    order = [finding.severity for finding in findings]
    assert order == sorted(order, reverse=True, key=["ok", "warning", "wrong"].index)


async def test_it_names_who_pins_the_horizon(
    each_url: str, own: Connection, snapshot: Connection
) -> None:
    assert (await only(each_url, "horizon")).severity == "ok"
    own.execute(MANY_TRANSACTIONS)

    finding = await only(each_url, "horizon")

    assert finding.severity == "warning"
    assert f"Session {snapshot.info.backend_pid} (" in finding.what
    assert "reports, idle in transaction" in finding.what
    assert "its last query: SELECT count(*) FROM rowlock.jobs" in finding.what
    # Other tests on this server begin transactions too.
    assert re.search(r"over 1\d,\d{3}", finding.what)
    assert "jobs that it has locked" not in finding.what
    cure(own, finding)
    with pytest.raises(pg.AdminShutdown):
        snapshot.execute("SELECT")
    assert (await only(each_url, "horizon")).severity == "ok"


async def test_it_measures_the_dead_entries_before_a_claims_first_job(
    each_url: str, own: Connection, snapshot: Connection
) -> None:
    crowds.leave_unattended(own)
    crowds.add_backlog(own, 5000, ahead="-2 hours")
    crowds.add_backlog(own, 5, ahead="-1 hour")
    assert (await only(each_url, "head")).severity == "ok"
    own.execute("DELETE FROM rowlock.live WHERE run_at < now() - interval '90 min'")

    finding = await only(each_url, "head")

    assert finding.severity == "warning"
    assert "(1 job) read " in finding.what
    assert int(finding.what.split(" read ")[1].split()[0].replace(",", "")) > 80
    snapshot.rollback()
    cure(own, finding)
    assert (await only(each_url, "head")).severity == "ok"


async def test_a_look_that_takes_too_long_is_wrong_and_the_others_go_on(
    each_url: str, own: Connection, snapshot: Connection
) -> None:
    crowds.leave_unattended(own)
    crowds.add_backlog(own, 20_000, ahead="-2 hours")
    own.execute("DELETE FROM rowlock.live")
    app = App(each_url)
    database: Any = app._store._database  # type: ignore[attr-defined]
    hasty = database.statements["examining"].replace(b"'5s'", b"'2ms'")
    database.statements = {**database.statements, "examining": hasty}

    findings = {each.about: each for each in await app.doctor()}

    assert snapshot.info.backend_pid
    assert findings["head"].severity == "wrong"
    assert "took longer than this doctor waits" in findings["head"].what
    assert {"partitions", "unlogged", "tasks"} <= findings.keys()


async def test_many_lines_of_living_jobs_are_no_dead_entries(
    each_url: str, own: Connection
) -> None:
    for priority in range(-20, 20):
        crowds.add_backlog(own, 3, ahead="-1 hour", priority=priority)

    finding = await only(each_url, "head")

    assert finding.severity == "ok"
    assert "(40 jobs)" in finding.what


async def test_tables_left_alone_by_autovacuum_are_one_finding(
    each_url: str, own: Connection
) -> None:
    crowds.leave_unattended(own)

    finding = await only(each_url, "autovacuum")

    assert len(cures(finding)) > 8
    cure(own, finding)
    assert (await only(each_url, "autovacuum")).severity == "ok"


@pytest.mark.parametrize("option", ["autovacuum_enabled", "toast.autovacuum_enabled"])
async def test_it_names_a_table_for_which_autovacuum_is_off(
    each_url: str, own: Connection, option: str
) -> None:
    own.execute(f"ALTER TABLE rowlock.live SET ({option} = off)".encode())

    finding = await only(each_url, "autovacuum")

    assert finding.severity == "wrong"
    assert "off for rowlock.live:" in finding.what
    cure(own, finding)
    assert (await only(each_url, "autovacuum")).severity == "ok"


async def test_it_names_days_without_a_partition(
    each_url: str, own: Connection
) -> None:
    today = datetime.now(UTC).date()
    for day in (today, today + timedelta(days=3)):
        own.execute(f"DROP TABLE rowlock.history_{day:%Y%m%d}".encode())

    finding = await only(each_url, "partitions")

    assert finding.severity == "wrong"
    assert f"partition of {today}, {today + timedelta(days=3)}:" in finding.what
    assert cures(finding) == ["rowlock migrate"]
    await PostgresStore.from_url(each_url).migrate()
    assert (await only(each_url, "partitions")).severity == "ok"


async def test_a_day_that_is_missing_later_is_a_warning(
    each_url: str, own: Connection
) -> None:
    day = datetime.now(UTC).date() + timedelta(days=7)
    own.execute(f"DROP TABLE rowlock.history_{day:%Y%m%d}".encode())

    assert (await only(each_url, "partitions")).severity == "warning"


async def test_it_names_a_detach_that_was_interrupted(
    each_url: str, own: Connection, snapshot: Connection
) -> None:
    day = datetime.now(UTC).date() - timedelta(days=9)
    own.execute("SELECT rowlock.make_partition(%s)", (day,))
    snapshot.execute("SELECT FROM rowlock.history")
    own.execute("SET statement_timeout = '100ms'")
    with pytest.raises(pg.QueryCanceled):
        own.execute(
            f"ALTER TABLE rowlock.history DETACH PARTITION"
            f" rowlock.history_{day:%Y%m%d} CONCURRENTLY".encode()
        )

    finding = await only(each_url, "partitions")

    assert finding.severity == "warning"
    assert f"history_{day:%Y%m%d} was interrupted" in finding.what
    snapshot.rollback()
    cure(own, finding)
    assert (await only(each_url, "partitions")).severity == "ok"


async def test_it_counts_finished_jobs_that_stayed_behind(
    each_url: str, own: Connection
) -> None:
    crowds.add_backlog(own, 2, ahead="-1 hour")
    day = datetime.now(UTC) - timedelta(days=1)
    own.execute(
        "UPDATE rowlock.live SET status = 'succeeded', finished_at = %s", (day,)
    )

    finding = await only(each_url, "partitions")

    assert finding.severity == "warning"
    assert f"2 finished jobs, as the history had no partition of {day:%F}" in (
        finding.what
    )
    async with App(each_url) as app:  # a worker's pruning
        await app._store.prune(Retention(), limit=100)
    assert (await only(each_url, "partitions")).severity == "ok"


@pytest.mark.parametrize(
    ("setting", "value", "severity"),
    [
        ("default_transaction_isolation", "repeatable read", "warning"),
        ("default_transaction_isolation", "serializable", "warning"),
        ("default_transaction_read_only", "on", "wrong"),
        ("session_replication_role", "replica", "wrong"),
        ("synchronous_commit", "off", "warning"),
    ],
)
@pytest.mark.parametrize(
    "whose", ["DATABASE {database}", "ROLE {user} IN DATABASE {database}"]
)
async def test_it_names_a_setting_of_the_database_or_the_role(
    each_url: str, own: Connection, setting: str, value: str, severity: str, whose: str
) -> None:
    place = whose.format(database=own.info.dbname, user=own.info.user)
    own.execute(f"ALTER {place} SET {setting} = '{value}'".encode())

    (finding,) = await _settings(each_url)

    assert finding.severity == severity
    assert f"{setting} is {value} for the " in finding.what
    assert f"the database {own.info.dbname}:" in finding.what
    with psycopg.connect(each_url, autocommit=True) as operator:
        cure(operator, finding)
    assert await _settings(each_url) == []


async def _settings(url: str) -> list[Any]:
    return [
        finding
        for finding in ill(await examine(url, "settings"))
        if finding.what.split()[0] not in UNSAFE
    ]


@pytest.mark.parametrize(
    ("table", "kind"), [("live", "TABLE"), ("workers", "TABLE"), ("ids", "SEQUENCE")]
)
async def test_it_names_what_a_crash_would_empty(
    each_url: str, own: Connection, table: str, kind: str
) -> None:
    own.execute(f"ALTER {kind} rowlock.{table} SET UNLOGGED".encode())

    finding = await only(each_url, "unlogged")

    assert finding.severity == "wrong"
    assert finding.what.startswith(f"rowlock.{table} is unlogged")
    cure(own, finding)
    assert (await only(each_url, "unlogged")).severity == "ok"


async def test_a_database_that_was_never_migrated_is_told_so(
    each_empty_url: str,
) -> None:
    finding = await only(each_empty_url, "schema")

    assert finding.severity == "wrong"
    assert finding.what.endswith('has no schema of Rowlock\'s yet ("rowlock").')
    assert cures(finding) == ["rowlock migrate"]
    assert await examine(each_empty_url, "partitions") == []
    await PostgresStore.from_url(each_empty_url).migrate()
    assert (await only(each_empty_url, "schema")).severity == "ok"


async def test_a_schema_of_a_later_release_is_told_so(
    each_url: str, own: Connection
) -> None:
    own.execute(
        "INSERT INTO rowlock.migrations VALUES (9999, 'later', 'unknown', now())"
    )

    finding = await only(each_url, "schema")

    assert finding.severity == "wrong"
    assert "has schema version 9999" in finding.what
    assert finding.cure == "Upgrade Rowlock."


@pytest.mark.parametrize(
    ("off", "severity", "said"),
    [
        (7300, "wrong", "is 2 h or more ahead of the database's."),
        (-7300, "wrong", "is 2 h or more behind the database's."),
        (-20, "warning", "or more behind the database's."),
    ],
)
async def test_it_compares_the_clocks(
    each_url: str, off: float, severity: str, said: str
) -> None:
    clock = FakeClock(datetime.now(UTC) + timedelta(seconds=off))

    finding = await only(each_url, "clock", clock=clock)

    assert finding.severity == severity
    assert said in finding.what


async def test_it_compares_the_clocks_of_workers(each_url: str) -> None:
    ahead = FakeClock(datetime.now(UTC) + timedelta(seconds=90))
    async with working(each_url, clock=ahead):
        finding = await only(each_url, "workers", clock=ahead)

        assert finding.severity == "wrong"
        assert finding.what.startswith("As it registered, the clock of worker ")
        assert f", process {os.getpid()}) was " in finding.what
        assert finding.what.endswith("s or more ahead of the database's.")
    async with working(each_url):
        assert (await only(each_url, "workers")).severity == "ok"


async def test_it_names_tasks_with_due_jobs_that_no_live_worker_has(
    each_url: str,
) -> None:
    async with App(each_url) as app:
        await app._store.enqueue([job(), job()])

    finding = await only(each_url, "tasks")

    assert finding.severity == "wrong"
    assert finding.what.startswith("No live worker has the task 'mail', of which 2")
    async with working(each_url):
        assert (await only(each_url, "tasks")).severity == "ok"


async def test_it_waits_for_no_lock(each_url: str) -> None:
    with psycopg.connect(each_url) as user:
        user.execute("LOCK TABLE rowlock.live IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()

        findings = await examine(each_url)

        assert time.monotonic() - began < 5
        unseen = {each.about for each in findings if "couldn't be seen" in each.what}
        assert unseen == {"head", "partitions", "tasks"}
        assert {each.severity for each in findings if each.about in unseen} == {
            "warning"
        }
    assert not ill(await examine(each_url, "head"))


async def test_it_keeps_nobody_waiting(each_url: str, own: Connection) -> None:
    crowds.add_backlog(own, 10, ahead="-1 hour")
    with psycopg.connect(each_url) as user:
        user.execute("SELECT FROM rowlock.live FOR UPDATE")
        user.execute("LOCK TABLE rowlock.live, rowlock.history IN EXCLUSIVE MODE")

        findings = await examine(each_url)

    assert not any("couldn't be seen" in finding.what for finding in findings)


async def test_a_database_out_of_reach_is_no_finding() -> None:
    with pytest.raises(StoreUnavailable):
        await examine("postgresql://ada@127.0.0.1:1/shop")
