"""The schema: what is applied, what is pending, and whether this code can serve it."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from rowlock._errors import SchemaMismatch
from rowlock.stores import _sql
from rowlock.stores.sqlite import connection as connections
from rowlock.stores.sqlite.statements import PACKAGE, SQL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowlock._store import Migration
    from rowlock.stores.sqlite.statements import Executor


def pending(connection: Executor, path: str) -> Sequence[Migration]:
    """
    Name what isn't applied yet, oldest first.

    Raises:
        SchemaMismatch: the schema is newer than this code, or was applied from
            another text.
    """
    ours = all_migrations()
    if not connection.execute(SQL["has_migrations"]).fetchall():
        return ours
    applied = connection.execute(SQL["applied_migrations"]).fetchall()
    known = {migration.version: migration for migration in ours}
    newest = max((version for version, *_ in applied), default=0)
    if newest > ours[-1].version:
        msg = (
            f"The database {path} has schema version {newest}, and this Rowlock knows"
            f" {ours[-1].version}: upgrade Rowlock."
        )
        raise SchemaMismatch(msg)
    for version, name, checksum in applied:
        if checksum != _sql.checksum(known[version]):
            msg = (
                f"The database {path} has another text of schema version {version}"
                f" ({name}) than this Rowlock: install the release that made it."
            )
            raise SchemaMismatch(msg)
    done = {version for version, *_ in applied}
    return tuple(migration for migration in ours if migration.version not in done)


def migrate(
    connection: sqlite3.Connection, now: int, *, path: str
) -> Sequence[Migration]:
    """
    Apply what is pending, all or none; return it, oldest first.

    Two processes at once are safe: whoever gets the lock second finds nothing left.
    """
    # Most often there is nothing to do, and then no lock is needed.
    if not connections.patiently(lambda: pending(connection, path)):
        return ()
    connections.begin(connection)
    try:
        applied = _apply(connection, now, pending(connection, path))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return applied


def join(connection: Executor, now: int, *, path: str) -> None:
    """Apply what is pending in the transaction that is open, whoever commits it."""
    if todo := pending(connection, path):
        _apply(connection, now, todo)


def all_migrations() -> Sequence[Migration]:
    """Name all there are: what an empty database lacks."""
    return _sql.migrations(PACKAGE)


def _apply(
    connection: Executor, now: int, todo: Sequence[Migration]
) -> Sequence[Migration]:
    connection.execute(SQL["create_migrations"])
    for migration in todo:
        for statement in split(migration.sql):
            connection.execute(statement)
        connection.execute(
            SQL["add_migration"],
            {
                "version": migration.version,
                "name": migration.name,
                "checksum": _sql.checksum(migration),
                "now": now,
            },
        )
    return todo


def split(script: str) -> Iterator[str]:
    """Cut a migration into its statements; a trigger's body stays whole."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if line.rstrip().endswith(";") and sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
