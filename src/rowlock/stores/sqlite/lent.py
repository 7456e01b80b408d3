"""
Enqueueing on a connection that the caller lends: the standard library's own.

It joins the caller's transaction, begins one where the connection would, and commits
by itself only where the connection is in autocommit. Where the store isn't open, it
makes the schema there, too, with the first jobs. How long it waits for a lock is
the connection's own setting (`sqlite3.connect(timeout=)`).
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rowlock._errors import WrongConnection
from rowlock.stores.sqlite import errors, migrate, rows
from rowlock.stores.sqlite.connection import MEMORY
from rowlock.stores.sqlite.enqueue import enqueue
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowlock._clock import Clock
    from rowlock._job import NewJob
    from rowlock.stores.sqlite.database import Database


class SQLiteLent:
    """A `Lent` for one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def keeps_out(self, connection: object) -> bool:
        """Whether it is in a transaction before ours is open; see `Lent.keeps_out`."""
        if not isinstance(connection, sqlite3.Connection) or self._database.is_open:
            return False
        try:
            return connection.in_transaction
        except sqlite3.ProgrammingError:  # closed, which the enqueue says
            return False

    async def enqueue(
        self, jobs: Sequence[NewJob], connection: object
    ) -> Sequence[int | None]:
        """Refuse: SQLite's connections are synchronous."""
        if isinstance(connection, sqlite3.Connection):
            msg = (
                "A sqlite3.Connection is synchronous, so it can't be lent to an awaited"
                " enqueue: call enqueue_sync (or enqueue_many_sync) with it."
            )
            raise WrongConnection(msg)
        del jobs
        raise _wrong_kind(connection)

    def enqueue_sync(
        self, jobs: Sequence[NewJob], connection: object
    ) -> Sequence[int | None]:
        """Insert jobs in the caller's transaction; see `Lent.enqueue_sync`."""
        if not isinstance(connection, sqlite3.Connection):
            raise _wrong_kind(connection)
        # A cursor of our own kind: the caller may have set another, or a row factory.
        cursor = self._check(connection)
        try:
            with _in_transaction(connection, cursor, self._database.path):
                now = rows.to_micros(self._clock.now())
                if not self._database.is_open:
                    self._migrate(connection, cursor, now)
                ids = enqueue(cursor, now, jobs)
        except sqlite3.Error as error:
            raise errors.translate(error, self._database.path) from error
        finally:
            cursor.close()
        # Where the commit is still to come, it is looked for more often for a while.
        self._database.lent()
        return ids

    def _migrate(
        self, connection: sqlite3.Connection, cursor: sqlite3.Cursor, now: int
    ) -> None:
        """Make the schema in the caller's transaction, where it isn't there."""
        # Our connection would wait for the caller's lock, and the caller waits for us.
        caller_s = connection.text_factory
        connection.text_factory = str
        try:
            migrate.join(cursor, now, path=self._database.path)
        finally:
            connection.text_factory = caller_s

    def _check(self, connection: sqlite3.Connection) -> sqlite3.Cursor:
        """Refuse a connection that is closed, of another thread or another database."""
        path = self._database.path
        if path == MEMORY:
            msg = (
                "The store is in memory, where no other connection can reach it: lend"
                " one to a store in a file."
            )
            raise WrongConnection(msg)
        try:
            cursor = sqlite3.Cursor(connection)
            main = next(
                file
                for _, name, file in cursor.execute(SQL["attached"]).fetchall()
                if _text(name) == "main"
            )
        except sqlite3.ProgrammingError as error:
            msg = f"The connection lent can't be used: {error}"
            raise WrongConnection(msg) from error
        except sqlite3.Error as error:
            raise errors.translate(error, path) from error
        if not main or not _is_same(_text(main), path):
            found = _text(main) if main else "a database in memory"
            msg = (
                f"The connection lent is to {found}, and the jobs are in {path}: lend"
                " one to that."
            )
            raise WrongConnection(msg)
        return cursor


@contextmanager
def _in_transaction(
    connection: sqlite3.Connection, cursor: sqlite3.Cursor, path: str
) -> Iterator[None]:
    """All or none, whoever commits: a savepoint, or where none would, a transaction."""
    joins = connection.in_transaction
    commits = not joins and _is_autocommit(connection)
    if not joins:
        cursor.execute("BEGIN IMMEDIATE")
    cursor.execute("SAVEPOINT rowlock")
    try:
        yield
    except BaseException:
        # A full disk has rolled everything back already.
        if connection.in_transaction:
            cursor.execute("ROLLBACK TO rowlock")
            cursor.execute("RELEASE rowlock")
            if not joins:
                cursor.execute("ROLLBACK")
        raise
    cursor.execute("RELEASE rowlock")
    if commits:
        _commit(connection, cursor, path)


def _commit(connection: sqlite3.Connection, cursor: sqlite3.Cursor, path: str) -> None:
    try:
        cursor.execute("COMMIT")
    except sqlite3.Error as error:
        # The caller has begun none, and must not find one open.
        if connection.in_transaction:
            cursor.execute("ROLLBACK")
        raise errors.translate_commit(error, path) from error


def _is_autocommit(connection: sqlite3.Connection) -> bool:
    # Python 3.12 has the attribute; -1 is its word for how it was before.
    autocommit = getattr(connection, "autocommit", -1)
    return connection.isolation_level is None if autocommit == -1 else bool(autocommit)


def _wrong_kind(connection: object) -> WrongConnection:
    kind = type(connection)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    return WrongConnection(
        f"A {name} can't be lent to the SQLite store: it takes a sqlite3.Connection, in"
        " enqueue_sync."
    )


def _text(value: str | bytes) -> str:
    # The caller's text_factory may give bytes.
    return os.fsdecode(value)


def _is_same(file: str, path: str) -> bool:
    try:
        return Path(file).samefile(path)
    except OSError:
        return Path(file).resolve() == Path(path)
