"""
What is lent in a connection's place, such as a pool, and the step from it to one.

As the kinds of connections it is looked for among what is loaded.
"""

from __future__ import annotations

from typing import Final

from rowlock._errors import WrongConnection
from rowlock.stores import guests
from rowlock.stores.guests import Kind

_ASYNC = "sqlalchemy.ext.asyncio"

_OF_IT = "a connection of it, as in"
_SESSION_OF_IT = "a session that it makes, as in"
_ITS_CONNECTION = "its `.connection`"
_ITS_SESSION = "its `.session`"
_ITS_DRIVERS = "its `.driver_connection`"
_DJANGOS = "`connection` of django.db"

_SYNC: Final = {
    Kind("sqlalchemy.engine", "Engine"): (
        f"{_OF_IT} `with engine.begin() as connection`"
    ),
    Kind("sqlalchemy.engine", "Transaction"): _ITS_CONNECTION,
    Kind("sqlalchemy.orm", "SessionTransaction"): _ITS_SESSION,
    Kind("flask_sqlalchemy", "SQLAlchemy"): _ITS_SESSION,
    Kind("psycopg_pool", "ConnectionPool"): (
        f"{_OF_IT} `with pool.connection() as connection`"
    ),
    Kind("psycopg2.pool", "AbstractConnectionPool"): f"{_OF_IT} `pool.getconn()`",
    Kind("django.utils.connection", "BaseConnectionHandler"): (
        f'{_OF_IT} `connections["default"]`'
    ),
    Kind("sqlite3", "Cursor"): _ITS_CONNECTION,
    Kind("psycopg", "Cursor"): _ITS_CONNECTION,
    Kind("psycopg", "Transaction"): _ITS_CONNECTION,
    Kind("psycopg2.extensions", "cursor"): _ITS_CONNECTION,
    Kind("django.db.backends.utils", "CursorWrapper"): _DJANGOS,
    Kind("django.db.transaction", "Atomic"): _DJANGOS,
    # Such as `engine.begin()`.
    Kind("contextlib", "_GeneratorContextManager"): (
        "what it gives, as in `with ... as connection`"
    ),
}

_AWAITED: Final = {
    Kind(_ASYNC, "AsyncEngine"): (
        f"{_OF_IT} `async with engine.begin() as connection`"
    ),
    Kind(_ASYNC, "async_sessionmaker"): (
        f"{_SESSION_OF_IT} `async with make_session.begin() as session`"
    ),
    Kind("sqlalchemy.engine", "AdaptedConnection"): _ITS_DRIVERS,
    Kind(_ASYNC, "AsyncTransaction"): _ITS_CONNECTION,
    Kind(_ASYNC, "AsyncSessionTransaction"): _ITS_SESSION,
    Kind("asyncpg.pool", "Pool"): f"{_OF_IT} `async with pool.acquire() as connection`",
    Kind("asyncpg.pool", "PoolAcquireContext"): (
        f"{_OF_IT} `async with pool.acquire() as connection`"
    ),
    Kind("psycopg_pool", "AsyncConnectionPool"): (
        f"{_OF_IT} `async with pool.connection() as connection`"
    ),
    Kind("aiosqlite", "Cursor"): "the connection that made it",
    Kind("psycopg", "AsyncCursor"): _ITS_CONNECTION,
    Kind("psycopg", "AsyncTransaction"): _ITS_CONNECTION,
    Kind("asyncpg.transaction", "Transaction"): "the connection that began it",
    Kind("contextlib", "_AsyncGeneratorContextManager"): (
        "what it gives, as in `async with ... as connection`"
    ),
}

# Of these it isn't known whether what they lead to is awaited.
_EITHER: Final = {
    Kind("sqlalchemy.orm", "sessionmaker"): (
        f"{_SESSION_OF_IT} `session = make_session()`"
    ),
    Kind("sqlalchemy.pool", "PoolProxiedConnection"): _ITS_DRIVERS,
    Kind("sqlalchemy.engine", "CursorResult"): "the connection that gave it",
    # Such as `psycopg.AsyncConnection.connect()` without an await.
    Kind("types", "CoroutineType"): "what it gives once it is awaited",
}


def refusal(lent: object, call: str) -> WrongConnection | None:
    """Say what to lend in place of what is no connection, None where it isn't known."""
    for strangers, use in (
        (_SYNC, f", and call {call}_sync with it"),
        (_AWAITED, f", and await {call} with it"),
        (_EITHER, ""),
    ):
        for kind, lend in strangers.items():
            if kind.has(lent):
                one = guests.one(lent)
                return WrongConnection(f"{one} is no connection: lend {lend}{use}.")
    return None
