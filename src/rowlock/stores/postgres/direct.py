"""
Connections past a pooler, by `ROWLOCK_DIRECT_URL`: to listen, and to drop old days.

They must lead to the very database of the URL. With one direct URL in the environment
and another database in the process, as in its tests, the wrong one's days would be
dropped, and nothing would ever be heard.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import psycopg
from psycopg.conninfo import make_conninfo

from rowlock._clock import Clock
from rowlock._errors import OutcomeUnknown, StoreUnavailable
from rowlock.stores.postgres import sessions
from rowlock.stores.postgres.address import Address
from rowlock.stores.postgres.errors import Misled
from rowlock.stores.postgres.sessions import Row, Session

R = TypeVar("R")

_log = logging.getLogger("rowlock.store")


async def connect(
    address: Address,
    statements: Mapping[str, bytes],
    clock: Clock | None,
    identity: Row | None,
) -> Session:
    """
    Connect past a pooler; `identity` is that of the database which it must be.

    Raises:
        StoreUnavailable: out of reach; or, as `Misled`, it is another database.
    """
    session = await sessions.connect(
        address.direct, statements, clock, address.direct_shown
    )
    try:
        _check(await session.run("identity"), identity, address)
    except BaseException:
        session.drop()
        raise
    return session


async def run(
    address: Address,
    statements: Mapping[str, bytes],
    clock: Clock | None,
    identity: Row | None,
    what: Callable[[Session], Awaitable[R]],
) -> R | None:
    """Run what takes its time on a connection for it alone; None where it can't be."""
    try:
        session = await connect(address, statements, clock, identity)
        try:
            return await what(session)
        finally:
            await session.close()
    except Misled as error:
        _log.warning("%s Until then no old day leaves the history.", error)
    except (StoreUnavailable, OutcomeUnknown) as error:
        _log.warning(
            "What takes its time waits for the next pruning, or the history grows: %s",
            error,
        )
    return None


def listen(
    address: Address, statements: Mapping[str, bytes], identity: Row | None
) -> psycopg.Connection[Row]:
    """Listen on a connection for it alone; raises as `connect` does, and psycopg's."""
    connection = psycopg.Connection[Row].connect(
        make_conninfo(**address.direct, client_encoding="utf8"), autocommit=True
    )
    try:
        # Given values, though none, psycopg reads a % that is written twice as one.
        connection.execute(statements["session"], {})
        found = connection.execute(statements["identity"], {}).fetchall()
        _check(found, identity, address)
        connection.execute(statements["listen"], {})
    except BaseException:
        connection.close()
        raise
    return connection


def _check(found: Sequence[Row], identity: Row | None, address: Address) -> None:
    if found != [identity]:
        msg = (
            f"{address.variable} leads to another database than {address.shown}:"
            " correct it, or unset it."
        )
        raise Misled(msg)
