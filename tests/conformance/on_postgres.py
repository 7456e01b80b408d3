"""
The databases of the Postgres store: one a process, emptied between tests.

A transaction that is rolled back would be quicker, and would hide what is proved here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from rowlock.stores import connect
from tests.cluster.databases import Databases

Connection = psycopg.Connection[tuple[Any, ...]]

# Tests that move the clock leave the partitions of their days, and each is looked at
# by every question to the history.
MOST_PARTITIONS = 8

EMPTY = """
    DELETE FROM rowlock.live;
    DELETE FROM rowlock.history;
    DELETE FROM rowlock.pauses;
    DELETE FROM rowlock.replay_rules;
    DELETE FROM rowlock.once_keys;
    DELETE FROM rowlock.workers;
    DELETE FROM rowlock.tasks;
    DELETE FROM rowlock.migrations WHERE version = 9999;
    SELECT setval('rowlock.ids', 1, false);
"""
PARTITIONS = """
    SELECT inhrelid::regclass::text FROM pg_inherits
    WHERE inhparent = 'rowlock.history'::regclass
"""


class Server:
    """The server of this session, and this process's own database on it."""

    databases: Databases
    url: str
    admin: Connection


def migrate(url: str) -> None:
    """Bring the template to the present."""

    async def run() -> None:
        store = connect(url)
        await store.migrate()
        await store.close()

    # A test that asks for a database first of all has a loop running by then.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, run()).result()


@contextmanager
def serving(databases: Databases) -> Iterator[None]:
    """Use this server for the rest of the session."""
    Server.databases = databases
    Server.url = databases.clone()
    with psycopg.connect(Server.url, autocommit=True) as Server.admin:
        yield
    databases.drop(Server.url)


@contextmanager
def database(_folder: Path) -> Iterator[str]:
    """Give the URL of this process's database, emptied."""
    Server.admin.execute(EMPTY)
    partitions = [name for (name,) in Server.admin.execute(PARTITIONS)]
    if len(partitions) > MOST_PARTITIONS:
        Server.admin.execute(f"DROP TABLE {', '.join(partitions)}")
    yield Server.url


@contextmanager
def unmigrated(_folder: Path) -> Iterator[str]:
    """Give the URL of a database with nothing in it."""
    url = Server.databases.empty()
    yield url
    Server.databases.drop(url)


@contextmanager
def lend(url: str) -> Iterator[Connection]:
    """Connect as any program would."""
    with psycopg.connect(url) as own:
        yield own
        own.rollback()


@contextmanager
def hold_writes(url: str) -> Iterator[None]:
    """Lock all tables for writing, as a user may in his transaction."""
    with lend(url) as own:
        own.execute(
            "LOCK TABLE rowlock.live, rowlock.history, rowlock.pauses,"
            " rowlock.workers, rowlock.tasks, rowlock.replay_rules, rowlock.once_keys"
            " IN EXCLUSIVE MODE"
        )
        yield


@contextmanager
def poison(url: str) -> Iterator[None]:
    """Let triggers refuse every write of a row of the task `poison`."""
    with psycopg.connect(url, autocommit=True) as own:
        own.execute(
            "CREATE OR REPLACE FUNCTION poisoned() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'poisoned by the test'; END $$"
        )
        verbs = (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD"))
        tables = ("rowlock.live", "rowlock.history")
        for table in tables:
            for verb, row in verbs:
                own.execute(
                    f"CREATE TRIGGER poison_{verb} BEFORE {verb} ON {table}"
                    f" FOR EACH ROW WHEN ({row}.task = 'poison')"
                    " EXECUTE FUNCTION poisoned()"
                )
        yield
        for table in tables:
            for verb, _ in verbs:
                own.execute(f"DROP TRIGGER poison_{verb} ON {table}")


def ids_above(_url: str, number: int) -> None:
    """Move the sequence."""
    Server.admin.execute("SELECT setval('rowlock.ids', %s)", (number,))


def from_the_future(_url: str) -> None:
    """Record a migration that this version doesn't have."""
    Server.admin.execute(
        "INSERT INTO rowlock.migrations (version, name, checksum, applied_at)"
        " VALUES (9999, 'later', 'unknown', now())"
    )


def delete_rows(_url: str, ids: Sequence[int]) -> None:
    """Delete from the tables, since the view refuses."""
    for table in ("live", "history"):
        Server.admin.execute(
            f"DELETE FROM rowlock.{table} WHERE id = ANY (%s)",  # noqa: S608 - our names
            (list(ids),),
        )
