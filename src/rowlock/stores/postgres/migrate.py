"""
The schema: what is applied, what is pending, and whether this code can serve it.

Nothing is migrated by opening: `rowlock migrate` does it, as the schema's owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rowlock._errors import ConfigError, SchemaMismatch, StoreUnavailable
from rowlock._store import Migration
from rowlock.stores import _sql
from rowlock.stores.postgres.errors import Forbidden, Locked
from rowlock.stores.postgres.roles import NO_ROLES, SINCE, Roles, grant
from rowlock.stores.postgres.script import write
from rowlock.stores.postgres.sessions import Session
from rowlock.stores.postgres.statements import PACKAGE, quoted, text_of, written

# A code serves the schema that comes after its own: what is taken away goes a release
# later than what stands in for it.
AHEAD = 1
_TRIES = 90
_PAUSE = 0.5  # seconds


async def check(
    session: Session, schema: str, shown: str, known: Sequence[Migration] | None = None
) -> None:
    """
    See that this code can serve the schema; `known` are the migrations it was made for.

    Raises:
        SchemaMismatch: too old or too new; the message says what to run.
        ConfigError: this user may not use it.
    """
    ours = known or all_migrations()
    try:
        todo = await pending(session, shown, ours)
    except Forbidden as error:
        raise await _shut_out(session, schema, shown, error) from error
    if len(todo) == len(ours):
        msg = (
            f"The database {shown} has no schema of Rowlock's yet ({quoted(schema)}):"
            " run `rowlock migrate`, or correct ?schema= in the URL."
        )
        raise SchemaMismatch(msg)
    if todo:
        msg = (
            f"The database {shown} has schema version {todo[0].version - 1}, and this"
            f" Rowlock needs {ours[-1].version}: run `rowlock migrate`."
        )
        raise SchemaMismatch(msg)


async def pending(
    session: Session, shown: str, known: Sequence[Migration] | None = None
) -> Sequence[Migration]:
    """
    Name what isn't applied yet, oldest first.

    Raises:
        SchemaMismatch: the schema is newer than this code can serve, or was applied
            from another text.
    """
    ours = known or all_migrations()
    if not await _has_migrations(session):
        return ours
    applied = await session.run("applied_migrations")
    texts = {migration.version: migration for migration in ours}
    newest = max((version for version, *_ in applied), default=0)
    if newest > ours[-1].version + AHEAD:
        msg = (
            f"The database {shown} has schema version {newest}, and this Rowlock knows"
            f" {ours[-1].version}: upgrade Rowlock."
        )
        raise SchemaMismatch(msg)
    for version, name, checksum in applied:
        if version in texts and checksum != _sql.checksum(texts[version]):
            msg = (
                f"The database {shown} has another text of schema version {version}"
                f" ({name}) than this Rowlock: install the release that made it."
            )
            raise SchemaMismatch(msg)
    done = {version for version, *_ in applied}
    return tuple(migration for migration in ours if migration.version not in done)


async def migrate(
    session: Session,
    schema: str,
    shown: str,
    known: Sequence[Migration] | None = None,
    *,
    roles: Roles = NO_ROLES,
    tries: int = _TRIES,
) -> Sequence[Migration]:
    """
    Apply what is pending, all or none, grant roles, and see that partitions are ahead.

    Two processes at once are safe: whoever gets the lock second finds nothing left.
    A transaction of somebody's that is in the way is waited for, for `tries` seconds.
    """
    for left in reversed(range(tries)):
        try:
            async with session.transaction():
                await session.run("unhurried")
                await session.run("lock_migrations")
                todo = await pending(session, shown, known)
                await _apply(session, schema, todo)
                await grant(session, roles)
                await session.run("make_partitions")
        except Forbidden as error:
            raise await _not_the_owner(session, schema, shown, error) from error
        except Locked as error:
            if not left:
                raise await _held_up(session, shown, error) from error
            # Between two tries those who wait behind us for the same lock get it.
            await asyncio.sleep(_PAUSE)
        else:
            return todo
    return ()


async def preview(session: Session, schema: str, shown: str) -> Sequence[Migration]:
    """Name what `migrate` would apply, oldest first."""
    try:
        return await pending(session, shown)
    except Forbidden as error:
        raise await _not_the_owner(session, schema, shown, error) from error


async def script(session: Session, schema: str, shown: str, roles: Roles) -> str:
    """Write what `migrate` would do, to be run elsewhere; empty where it is nothing."""
    todo = await preview(session, schema, shown)
    return write(todo, schema, roles, makes=await _owner(session) is None)


def script_since(version: int, schema: str, roles: Roles) -> str:
    """Write what brings a schema of this version to the newest one."""
    todo = [each for each in all_migrations() if each.version > version]
    return write(todo, schema, roles, makes=version == 0)


def all_migrations() -> Sequence[Migration]:
    """Name all there are: what an empty database lacks."""
    return _sql.migrations(PACKAGE)


async def _apply(session: Session, schema: str, todo: Sequence[Migration]) -> None:
    if not todo:
        return
    if await _owner(session) is None:
        await session.run("create_schema")
    await session.run("create_migrations")
    for migration in todo:
        await session.execute(text_of(migration, schema).encode())
        await session.run(
            "add_migration",
            version=str(migration.version),
            name=migration.name,
            checksum=_sql.checksum(migration),
        )
    if todo[-1].version >= SINCE:
        await session.run("grant_again")


async def _held_up(session: Session, shown: str, error: Locked) -> StoreUnavailable:
    """Say whose transaction is in the way."""
    found = await session.run("holder")
    who = "another transaction"
    if found:
        ((pid, user, program, since),) = found
        who = f"session {pid} of {user}" + (f" ({program})" if program else "")
        if since is not None:
            who += f", in a transaction since {since:%Y-%m-%d %H:%M:%S} UTC"
    return StoreUnavailable(
        f"The migration of {shown} was held up for too long and changed nothing: end"
        f" what holds the tables, {who}; then run `rowlock migrate` again. ({error})"
    )


async def _not_the_owner(
    session: Session, schema: str, shown: str, error: Forbidden
) -> ConfigError:
    """Say who can migrate."""
    user = session.connection.info.user
    owner = await _owner(session)
    if owner is None:
        allowed = written("allow", schema).replace("{user}", quoted(user))
        return ConfigError(
            f"The user {user} may not make the schema {quoted(schema)} in {shown}: have"
            f" the database's owner run `{allowed}` first, or what `rowlock migrate"
            f" --sql` prints. ({error})"
        )
    if owner == user:
        return ConfigError(
            f"The user {user} owns the schema {quoted(schema)} of {shown}, but not all"
            " that is in it: make it a member of the role that does, as the worker's,"
            f" and migrate again. ({error})"
        )
    return ConfigError(
        f"The schema {quoted(schema)} of {shown} belongs to {owner}, and the user"
        f" {user} may not change it: migrate as {owner}, or have {owner} run what"
        f" `rowlock migrate --sql` prints. ({error})"
    )


async def _shut_out(
    session: Session, schema: str, shown: str, error: Forbidden
) -> ConfigError:
    """Say who can let this user in."""
    user = session.connection.info.user
    owner = await _owner(session)
    allowed = written("grant_worker", schema, role=user)
    return ConfigError(
        f"The user {user} may not use the schema {quoted(schema)} of {shown}: have its"
        f" owner, {owner}, run `rowlock migrate --worker-role {user}`, or"
        f" `{allowed}` ({error})"
    )


async def _has_migrations(session: Session) -> bool:
    ((answer,),) = await session.run("has_migrations")
    return bool(answer)


async def _owner(session: Session) -> str | None:
    """Name whose the schema is, None where it isn't there."""
    found = await session.run("schema_owner")
    return str(found[0][0]) if found else None
