"""
Connections past a pooler, by `ROWLOCK_DIRECT_URL`: to listen, and to drop old days.

They must lead to the very database of the URL. With one direct URL in the environment
and another database in the process, as in its tests, the wrong one's days would be
dropped, and nothing would ever be heard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg
from psycopg.conninfo import make_conninfo

from rowlock._clock import Clock
from rowlock.stores.postgres import sessions
from rowlock.stores.postgres.address import Address
from rowlock.stores.postgres.errors import Misled
from rowlock.stores.postgres.sessions import Row, Session


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
