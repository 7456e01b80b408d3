"""
Connections past a pooler, by `ROWLOCK_DIRECT_URL`: to listen, migrate, drop old days.

They must lead to the very database of the URL. With one direct URL in the environment
and another database in the process, as in its tests, the wrong one's days would be
dropped, and nothing would ever be heard.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TypeVar

import psycopg
from psycopg.conninfo import make_conninfo

from rowlock._clock import Clock
from rowlock._errors import OutcomeUnknown, StoreUnavailable
from rowlock.stores.postgres import sessions
from rowlock.stores.postgres.address import Address
from rowlock.stores.postgres.errors import Misled, Pooled
from rowlock.stores.postgres.sessions import Row, Session

R = TypeVar("R")

_log = logging.getLogger("rowlock.store")

PATIENCE = 10.0  # seconds, until a new connection listens

_POOLED = (
    "A pooler is between this machine and the server, and may hand on what listens:"
    " set ROWLOCK_DIRECT_URL to a URL of the server itself."
)
HANDED_ON = (
    "{} leads to a pooler that hands on what listens: have it lead to the server"
    " itself, or to a pooler in session mode."
)


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
    """
    Listen on a connection for it alone; raises as `connect` does, and psycopg's.

    A pooler may pass LISTEN on to a session that is somebody else's afterwards.
    """
    connection = _connect(address)
    try:
        with _bounded(connection):
            process = {"process": str(connection.pgconn.backend_pid)}
            found = connection.execute(statements["session"], process).fetchall()
            ((*_, is_pooled),) = found
            if is_pooled:
                _check_pooler(connection, address, statements)
            # Given values, though none, psycopg reads a % that is written twice as one.
            found = connection.execute(statements["identity"], {}).fetchall()
            _check(found, identity, address)
            connection.execute(statements["listen"], {})
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(address: Address) -> psycopg.Connection[Row]:
    return psycopg.Connection[Row].connect(
        make_conninfo(**address.direct, client_encoding="utf8"),
        autocommit=True,
        prepare_threshold=None,
    )


@contextmanager
def _bounded(connection: psycopg.Connection[Row]) -> Iterator[None]:
    """Give up a connection on which a frozen server takes questions for too long."""
    alarm = threading.Timer(PATIENCE, sessions.cut, [connection.pgconn])
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()


def _check_pooler(
    connection: psycopg.Connection[Row],
    address: Address,
    statements: Mapping[str, bytes],
) -> None:
    """
    Refuse a pooler, unless it is meant, and keeps each session for one connection.

    Then a second connection isn't served by the first one's process, which is idle.
    What this misses, as others use the pooler too, the questions in silences find.
    """
    if address.variable is None:
        raise Pooled(_POOLED)
    served_by = statements["served_by"]
    first = connection.execute(served_by, {}).fetchall()
    with (
        closing(_connect(address)) as second,
        _bounded(second),
        second.transaction(),
    ):
        if second.execute(served_by, {}).fetchall() == first:
            raise Pooled(HANDED_ON.format(address.variable))


def _check(found: Sequence[Row], identity: Row | None, address: Address) -> None:
    # Where the URL itself leads is for whoever changes the database behind it.
    if address.variable is not None and found != [identity]:
        msg = (
            f"{address.variable} leads to another database than {address.shown}:"
            " correct it, or unset it."
        )
        raise Misled(msg)
