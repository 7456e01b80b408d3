"""
Enqueueing on a connection that the caller lends: psycopg's own.

It joins the caller's transaction, begins one where the connection would, and commits by
itself only where the connection is in autocommit. The notification is a part of it; in
autocommit it follows, and as it tells of what is written, no failure of it is told.
Answers are asked for in binary, which no DateStyle and no loader for text changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any, TypeAlias
from weakref import WeakSet

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from rowlock._errors import WrongConnection
from rowlock._job import NewJob
from rowlock.stores.postgres import enqueue as enqueueing
from rowlock.stores.postgres import errors, notify
from rowlock.stores.postgres.database import Database
from rowlock.stores.postgres.enqueue import Added
from rowlock.stores.postgres.sessions import Row

Lendable: TypeAlias = "Connection[Any] | AsyncConnection[Any]"


class PostgresLent:
    """A `Lent` for one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._checked: WeakSet[Lendable] = WeakSet()

    def keeps_out(self, connection: object) -> bool:
        """Never: nothing that opens waits for a user's lock; see `Lent.keeps_out`."""
        del connection
        return False

    async def enqueue(
        self, jobs: Sequence[NewJob], connection: object
    ) -> Sequence[int | None]:
        """Insert jobs in the caller's transaction; see `Lent.enqueue`."""
        if isinstance(connection, Connection):
            msg = (
                "A psycopg.Connection is synchronous, so it can't be lent to an awaited"
                " enqueue: call enqueue_sync with it, or lend an AsyncConnection."
            )
            raise WrongConnection(msg)
        if not isinstance(connection, AsyncConnection):
            raise _wrong_kind(connection)
        self._check(connection)
        if not jobs:
            return ()
        commits = False
        try:
            async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
                if connection not in self._checked:
                    await cursor.execute(*self._statement("identity"), binary=True)
                    self._check_identity(connection, await cursor.fetchall())
                commits = _commits(connection)
                for _ in range(enqueueing.TRIES):
                    await cursor.execute(
                        *self._adding(jobs), prepare=False, binary=True
                    )
                    added = enqueueing.added(jobs, await cursor.fetchall())
                    if added is not None:
                        break
                else:
                    raise enqueueing.holders_change()
                if added.arrivals:
                    with suppress(psycopg.Error) if commits else nullcontext():
                        await cursor.execute(*self._telling(added), prepare=False)
        except psycopg.Error as error:
            raise self._translated(error, connection, commits=commits) from error
        # Due once the caller commits, of which the notification tells us too.
        return added.answer

    def enqueue_sync(
        self, jobs: Sequence[NewJob], connection: object
    ) -> Sequence[int | None]:
        """Do the same on a synchronous connection, in this thread."""
        if isinstance(connection, AsyncConnection):
            msg = (
                "A psycopg.AsyncConnection has to be awaited, so it can't be lent to"
                " enqueue_sync: await enqueue with it, or lend a psycopg.Connection."
            )
            raise WrongConnection(msg)
        if not isinstance(connection, Connection):
            raise _wrong_kind(connection)
        self._check(connection)
        if not jobs:
            return ()
        commits = False
        try:
            with Cursor(connection, row_factory=tuple_row) as cursor:
                if connection not in self._checked:
                    cursor.execute(*self._statement("identity"), binary=True)
                    self._check_identity(connection, cursor.fetchall())
                commits = _commits(connection)
                for _ in range(enqueueing.TRIES):
                    cursor.execute(*self._adding(jobs), prepare=False, binary=True)
                    added = enqueueing.added(jobs, cursor.fetchall())
                    if added is not None:
                        break
                else:
                    raise enqueueing.holders_change()
                if added.arrivals:
                    with suppress(psycopg.Error) if commits else nullcontext():
                        cursor.execute(*self._telling(added), prepare=False)
        except psycopg.Error as error:
            raise self._translated(error, connection, commits=commits) from error
        # Due once the caller commits, of which the notification tells us too.
        return added.answer

    def _check(self, connection: Lendable) -> None:
        """Refuse a connection on which nothing can be written."""
        if connection.closed:
            msg = "The connection lent is closed."
            raise WrongConnection(msg)
        if connection.pgconn.transaction_status == TransactionStatus.INERROR:
            msg = (
                "The transaction of the connection lent has failed: roll it back first."
            )
            raise WrongConnection(msg)

    def _check_identity(self, connection: Lendable, found: Sequence[Row]) -> None:
        if found != [self._database.identity]:
            info = connection.info
            msg = (
                f"The connection lent is to {info.dbname} on {info.host}:{info.port},"
                f" and the store is {self._database.shown}."
            )
            raise WrongConnection(msg)
        self._checked.add(connection)

    def _statement(
        self, operation: str, **values: str | None
    ) -> tuple[bytes, Mapping[str, str | None]]:
        return self._database.statement(operation, values)

    def _adding(self, jobs: Sequence[NewJob]) -> tuple[bytes, Mapping[str, str | None]]:
        return self._statement(enqueueing.operation(jobs), **enqueueing.values(jobs))

    def _telling(self, added: Added) -> tuple[bytes, Mapping[str, str | None]]:
        return self._statement("notify", payload=notify.write(added.arrivals))

    def _translated(
        self, error: psycopg.Error, connection: Lendable, *, commits: bool
    ) -> Exception:
        # Of the caller's own transaction, whose author may be waiting for just these.
        if isinstance(
            error,
            (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected),
        ):
            return error
        return errors.translate(
            error, self._database.shown, is_over=connection.closed, commits=commits
        )


def _commits(connection: Lendable) -> bool:
    """Say whether the next statement is a transaction of its own (law 15)."""
    return (
        connection.autocommit
        and connection.pgconn.transaction_status == TransactionStatus.IDLE
    )


def _wrong_kind(connection: object) -> WrongConnection:
    kind = type(connection)
    return WrongConnection(
        f"A {kind.__module__}.{kind.__qualname__} can't be lent to the Postgres store:"
        " it takes a psycopg.AsyncConnection in enqueue, and a psycopg.Connection in"
        " enqueue_sync."
    )
