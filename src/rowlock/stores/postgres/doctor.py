"""
Examining a Postgres database, on a connection for that alone.

Each look is a short transaction that only reads; one that fails - a lock, a right that
isn't there - is a finding, and the next one goes on. None of them needs more than a
worker's rights.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rowlock import _doctor
from rowlock._answers import Finding
from rowlock._doctor import warning, well, wrong
from rowlock._errors import ConfigError, SchemaMismatch, StoreError
from rowlock.stores.postgres import migrate, symptoms
from rowlock.stores.postgres.errors import Misled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock._clock import Clock
    from rowlock.stores.postgres.database import Database
    from rowlock.stores.postgres.sessions import Session

Look: TypeAlias = "Callable[[Session], Awaitable[list[Finding]]]"

# Of the server, whatever schema there is; then of a schema that is served.
_SERVER = {
    "settings": symptoms.settings,
    "horizon": symptoms.horizon,
}
_SCHEMA = {
    "rights": symptoms.rights,
    "autovacuum": symptoms.autovacuum,
    "head": symptoms.head,
    "partitions": symptoms.partitions,
    "unlogged": symptoms.unlogged,
    "tasks": symptoms.tasks,
    "workers": symptoms.workers,
}


class Situation(NamedTuple):
    """Where the session is."""

    is_standby: bool
    sees_others: bool
    lets_see: str
    user: str


class PostgresDoctor:
    """Who examines a Postgres database; see `Doctor`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def examine(self) -> Sequence[Finding]:
        """Look at everything, on a connection of its own; see `Doctor.examine`."""
        session = await self._database.connect()
        try:
            return _doctor.worst_first(await self._examine(session))
        finally:
            await session.close()

    async def _examine(self, session: Session) -> list[Finding]:
        async with examining(session):
            asked_at = self._clock.now()
            ((servers,),) = await session.run("clock")
            answered_at = self._clock.now()
            (situation,) = await session.run("situation")
        found = [
            _doctor.clock(asked_at, servers, answered_at),
            _standby(session, Situation(*situation)),
            _sight(Situation(*situation)),
            *await self._pooled(session),
        ]
        for about, look in _SERVER.items():
            found += await _seen(session, about, look)
        schema = await self._schema(session)
        found.append(schema)
        if schema.severity == "ok":
            for about, look in _SCHEMA.items():
                found += await _seen(session, about, look)
        return found

    async def _pooled(self, session: Session) -> list[Finding]:
        """Judge whether news can be heard, and old days be dropped beside readers."""
        if not self._database.has_direct_url:
            return [_pooler()] if session.is_pooled else []
        try:
            past = await self._database.connect_past(session)
        except Misled as error:
            what, _, cure = str(error).partition(": ")
            return [wrong("pooler", f"{what}.", f"{cure[:1].upper()}{cure[1:]}")]
        except (StoreError, ConfigError) as error:
            return [_doctor.unseen("pooler", error)]
        is_pooled = past.is_pooled
        await past.close()
        return [_pooler_past_pooler()] if is_pooled else []

    async def _schema(self, session: Session) -> Finding:
        try:
            await migrate.check(session, self._database.schema, self._database.shown)
        except (SchemaMismatch, ConfigError) as error:
            return _doctor.schema(error)
        except StoreError as error:
            if not session.is_usable:
                raise
            return _doctor.unseen("schema", error)
        return _doctor.schema(None)


@asynccontextmanager
async def examining(session: Session) -> AsyncIterator[None]:
    """Look in a transaction that only reads, and doesn't wait."""
    async with session.transaction(
        b"BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY"
    ):
        await session.run("examining")
        yield


async def _seen(session: Session, about: str, look: Look) -> list[Finding]:
    try:
        async with examining(session):
            # A full look is measured with the very plan that a worker's has.
            if look is not symptoms.head:
                await session.run("reading")
            return await look(session)
    except StoreError as error:
        if not session.is_usable:
            raise
        return [_doctor.unseen(about, error)]


def _pooler() -> Finding:
    return warning(
        "pooler",
        "A pooler is between this machine and the server, and may hand on a worker's"
        " LISTEN: new jobs are looked for every 2 to 30 s, and old days leave"
        " the history only while nobody reads it.",
        "Set `ROWLOCK_DIRECT_URL` to a URL of the server itself.",
    )


def _pooler_past_pooler() -> Finding:
    return warning(
        "pooler",
        "The direct URL leads to a pooler too, which is right in session mode only.",
        "Have `ROWLOCK_DIRECT_URL` lead to the server itself, where it can be reached.",
    )


def _standby(session: Session, situation: Situation) -> Finding:
    if not situation.is_standby:
        return well("standby", "The server is no standby.")
    return wrong(
        "standby",
        "The server is a standby, on which nothing can be written.",
        "Name the primary in the URL, or all hosts with"
        " `target_session_attrs=read-write`; where the primary is lost, have this one"
        f" stand in for it: {symptoms.shown(session, 'promote')}.",
    )


def _sight(situation: Situation) -> Finding:
    if situation.sees_others:
        return well("sight", "This user sees what other users' sessions do.")
    return warning(
        "sight",
        f"The user {situation.user} doesn't see what sessions of other users do, nor"
        " since when, nor how many autovacuum workers are busy.",
        f"`{situation.lets_see}`, as a superuser.",
    )
