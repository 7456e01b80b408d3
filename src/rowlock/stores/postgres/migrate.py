"""
The schema: what is applied, what is pending, and whether this code can serve it.

Nothing is migrated by opening: `rowlock migrate` does it, as the schema's owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from psycopg import sql

from rowlock._errors import ConfigError, SchemaMismatch
from rowlock._store import Migration
from rowlock.stores import _sql
from rowlock.stores.postgres.errors import Forbidden, Locked
from rowlock.stores.postgres.sessions import Session
from rowlock.stores.postgres.statements import PACKAGE, script

# A code serves the schema that comes after its own: what is taken away goes a release
# later than what stands in for it.
AHEAD = 1
_TRIES = 60
_PAUSE = 0.5  # seconds


async def check(session: Session, shown: str) -> None:
    """
    See that this code can serve the schema.

    Raises:
        SchemaMismatch: too old or too new; the message says what to run.
    """
    todo = await pending(session, shown)
    if todo:
        ours = all_migrations()
        has = ours[-1].version - len(todo)
        msg = (
            f"The database {shown} has schema version {has}, and this Rowlock needs"
            f" {ours[-1].version}: run `rowlock migrate`."
        )
        raise SchemaMismatch(msg)


async def pending(session: Session, shown: str) -> Sequence[Migration]:
    """
    Name what isn't applied yet, oldest first.

    Raises:
        SchemaMismatch: the schema is newer than this code can serve, or was applied
            from another text.
    """
    ours = all_migrations()
    if not await _says(session, "has_migrations"):
        return ours
    applied = await session.run("applied_migrations")
    known = {migration.version: migration for migration in ours}
    newest = max((version for version, *_ in applied), default=0)
    if newest > ours[-1].version + AHEAD:
        msg = (
            f"The database {shown} has schema version {newest}, and this Rowlock knows"
            f" {ours[-1].version}: upgrade Rowlock."
        )
        raise SchemaMismatch(msg)
    for version, name, checksum in applied:
        if version in known and checksum != _sql.checksum(known[version]):
            msg = (
                f"The database {shown} has another text of schema version {version}"
                f" ({name}) than this Rowlock: install the release that made it."
            )
            raise SchemaMismatch(msg)
    done = {version for version, *_ in applied}
    return tuple(migration for migration in ours if migration.version not in done)


async def migrate(session: Session, schema: str, shown: str) -> Sequence[Migration]:
    """
    Apply what is pending, all or none, and see that partitions are ahead.

    Two processes at once are safe: whoever gets the lock second finds nothing left.
    """
    for left in reversed(range(_TRIES)):
        try:
            async with session.transaction():
                await session.run("unhurried")
                await session.run("lock_migrations")
                applied = await _apply(session, schema, shown)
                await session.run("make_partitions")
        except Forbidden as error:
            raise forbidden(session, shown, error) from error
        except Locked:
            if not left:
                raise
            # Between two tries those who wait behind us for the same lock get it.
            await asyncio.sleep(_PAUSE)
        else:
            return applied
    return ()


def forbidden(session: Session, shown: str, error: Forbidden) -> ConfigError:
    """Say what the owner of the database has to run."""
    user = session.connection.info.user
    allowed = session.text("allow").replace("{user}", sql.Identifier(user).as_string())
    return ConfigError(
        f"The user {user} may not do this with the schema of {shown}: have it done as"
        f" its owner, who else runs `{allowed}` first. ({error})"
    )


def all_migrations() -> Sequence[Migration]:
    """Name all there are: what an empty database lacks."""
    return _sql.migrations(PACKAGE)


async def _apply(session: Session, schema: str, shown: str) -> Sequence[Migration]:
    todo = await pending(session, shown)
    if not todo:
        return ()
    if not await _says(session, "has_schema"):
        await session.run("create_schema")
    await session.run("create_migrations")
    for migration in todo:
        await session.execute(script(migration.sql, schema).encode())
        await session.run(
            "add_migration",
            version=str(migration.version),
            name=migration.name,
            checksum=_sql.checksum(migration),
        )
    return todo


async def _says(session: Session, operation: str) -> bool:
    ((answer,),) = await session.run(operation)
    return bool(answer)
