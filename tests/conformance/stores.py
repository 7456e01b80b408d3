"""
The stores that the laws are proved on: one `StoreCase` each, listed in `CASES`.

What a case can't do is None or False; a test that asks for it is skipped there, and
`test_suite.py` says how many those are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from . import on_postgres


class Connection(Protocol):
    """A user's own connection, as far as tests use it."""

    def commit(self) -> None:
        """Commit the transaction."""

    def rollback(self) -> None:
        """Roll the transaction back."""


@dataclass(frozen=True, kw_only=True)
class StoreCase:
    """
    One kind of store, and what can be done to its database from outside.

    `database` makes an empty database of its own and gives its URL; what it made is
    gone afterwards. `processes` says that a second instance can open it.
    """

    name: str
    database: Callable[[Path], AbstractContextManager[str]]
    # A database that was never migrated, where `database` gives one that was.
    unmigrated: Callable[[Path], AbstractContextManager[str]] | None = None
    # Opening it migrates it.
    migrates_itself: bool = True
    # The fixture of the session that has to be there first.
    server: str | None = None
    processes: bool = False
    # While inside, the database itself refuses to write a row of the task `poison`.
    poison: Callable[[str], AbstractContextManager[None]] | None = None
    # While inside, a user's transaction locks as much as it can.
    hold_writes: Callable[[str], AbstractContextManager[None]] | None = None
    # A user's connection, to be lent to the store.
    lend: Callable[[str], AbstractContextManager[Connection]] | None = None
    # The next job gets an id above this one.
    ids_above: Callable[[str, int], None] | None = None
    # The database claims to have been migrated by a later version.
    from_the_future: Callable[[str], None] | None = None
    # Somebody deletes rows by SQL, whatever state they are in.
    delete_rows: Callable[[str, Sequence[int]], None] | None = None


def in_memory(_folder: Path) -> AbstractContextManager[str]:
    """Give the URL of a database that lives as long as its store."""
    return _the("sqlite://")


def in_a_file(folder: Path) -> AbstractContextManager[str]:
    """Give the URL of a file that doesn't exist yet."""
    return _the(f"sqlite:///{folder / 'jobs.db'}")


@contextmanager
def _the(url: str) -> Iterator[str]:
    yield url


@contextmanager
def sqlite_lend(url: str) -> Iterator[sqlite3.Connection]:
    """Open the file as any program would."""
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=10, check_same_thread=False)) as own:
        yield own


@contextmanager
def sqlite_hold_writes(url: str) -> Iterator[None]:
    """Hold a write transaction, which on SQLite excludes every other."""
    with sqlite_lend(url) as own:
        own.execute("BEGIN IMMEDIATE")
        yield
        own.rollback()


@contextmanager
def sqlite_poison(url: str) -> Iterator[None]:
    """Let triggers refuse every write of a row of the task `poison`."""
    with sqlite_lend(url) as own:
        for verb, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            own.execute(
                f"CREATE TRIGGER poison_{verb} BEFORE {verb} ON rowlock_rows"
                f" WHEN {row}.task = 'poison'"
                " BEGIN SELECT RAISE(ABORT, 'poisoned by the test'); END"
            )
        yield
        for verb in ("INSERT", "UPDATE", "DELETE"):
            own.execute(f"DROP TRIGGER poison_{verb}")


def sqlite_ids_above(url: str, number: int) -> None:
    """Move the sequence; the table has had a row, so its entry exists."""
    with sqlite_lend(url) as own:
        moved = own.execute(
            "UPDATE sqlite_sequence SET seq = ? WHERE name = 'rowlock_rows'", (number,)
        )
        assert moved.rowcount == 1
        own.commit()


def sqlite_from_the_future(url: str) -> None:
    """Record a migration that this version doesn't have."""
    with sqlite_lend(url) as own:
        columns = [
            row[1] for row in own.execute("PRAGMA table_info(rowlock_migrations)")
        ]
        last = own.execute(
            "SELECT * FROM rowlock_migrations ORDER BY version DESC LIMIT 1"
        ).fetchone()
        later = [
            9999 if name == "version" else v
            for name, v in zip(columns, last, strict=True)
        ]
        marks = ", ".join("?" * len(columns))
        own.execute(f"INSERT INTO rowlock_migrations VALUES ({marks})", later)  # noqa: S608 - question marks
        own.commit()


def sqlite_delete_rows(url: str, ids: Sequence[int]) -> None:
    """Delete from the table, since the view refuses."""
    with sqlite_lend(url) as own:
        for job_id in ids:
            own.execute("DELETE FROM rowlock_rows WHERE id = ?", (job_id,))
        own.commit()


CASES = [
    StoreCase(name="sqlite-memory", database=in_memory),
    StoreCase(
        name="sqlite-file",
        database=in_a_file,
        processes=True,
        poison=sqlite_poison,
        hold_writes=sqlite_hold_writes,
        lend=sqlite_lend,
        ids_above=sqlite_ids_above,
        from_the_future=sqlite_from_the_future,
        delete_rows=sqlite_delete_rows,
    ),
    StoreCase(
        name="postgres",
        server="postgres_server",
        database=on_postgres.database,
        unmigrated=on_postgres.unmigrated,
        migrates_itself=False,
        processes=True,
        poison=on_postgres.poison,
        hold_writes=on_postgres.hold_writes,
        lend=on_postgres.lend,
        ids_above=on_postgres.ids_above,
        from_the_future=on_postgres.from_the_future,
        delete_rows=on_postgres.delete_rows,
    ),
]
