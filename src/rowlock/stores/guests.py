"""
Which kind of connection a user lends, and the driver's own inside of it.

A kind is told by its class, and that is looked for among what is loaded: no library is
imported here. SQLAlchemy and Django wrap a driver's connection; the stores speak to
that one alone, in the transaction that the wrapper has begun.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from rowlock._errors import AGAIN, RowlockError, StoreUnavailable, WrongConnection


class Kind(NamedTuple):
    """A class of connections, and how it is called; `other` is for the other call."""

    module: str
    name: str
    other: str = ""
    is_awaited: bool = False

    def has(self, connection: object) -> bool:
        """Say whether this connection is of this kind, or of one derived from it."""
        return isinstance(connection, self._loaded())

    def _loaded(self) -> type[Any] | tuple[()]:
        found: type[Any] | tuple[()] = getattr(
            sys.modules.get(self.module), self.name, ()
        )
        return found


SQLITE: Final = Kind("sqlite3", "Connection", "an aiosqlite.Connection")
AIOSQLITE: Final = Kind(
    "aiosqlite", "Connection", "a sqlite3.Connection", is_awaited=True
)
PSYCOPG: Final = Kind("psycopg", "Connection", "a psycopg.AsyncConnection")
ASYNC_PSYCOPG: Final = Kind(
    "psycopg", "AsyncConnection", "a psycopg.Connection", is_awaited=True
)
PSYCOPG2: Final = Kind("psycopg2.extensions", "connection", "a psycopg.AsyncConnection")
ASYNCPG: Final = Kind("asyncpg", "Connection", "a psycopg.Connection", is_awaited=True)

_ENGINE = "sqlalchemy.engine"
_ORM = "sqlalchemy.orm"
_ASYNC = "sqlalchemy.ext.asyncio"
_CONNECTION = Kind(_ENGINE, "Connection", "SQLAlchemy's AsyncConnection")
_SESSION = Kind(_ORM, "Session", "an AsyncSession")
_SCOPED = Kind(_ORM, "scoped_session", "an async_scoped_session")
_ASYNC_CONNECTION = Kind(
    _ASYNC, "AsyncConnection", "SQLAlchemy's Connection", is_awaited=True
)
_ASYNC_SESSION = Kind(_ASYNC, "AsyncSession", "a Session", is_awaited=True)
_ASYNC_SCOPED = Kind(
    _ASYNC, "async_scoped_session", "a scoped_session", is_awaited=True
)
# Django's has no other: its views call synchronous code in a thread.
_DJANGO = Kind("django.db.backends.base.base", "BaseDatabaseWrapper")
_DJANGO_PROXY = Kind("django.utils.connection", "ConnectionProxy")

_WRAPPERS: Final = (
    *(_CONNECTION, _SESSION, _SCOPED),
    *(_ASYNC_CONNECTION, _ASYNC_SESSION, _ASYNC_SCOPED),
    *(_DJANGO, _DJANGO_PROXY),
)


def named(connection: object) -> str:
    """Name the class of what was lent."""
    kind = type(connection)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def one(connection: object) -> str:
    """Name it as one of its class, as the beginning of a sentence."""
    name = named(connection)
    return f"{'An' if name[0] in 'aeioAEIO' else 'A'} {name}"


def check(
    connection: object, drivers: Sequence[Kind], *, call: str, is_awaited: bool
) -> None:
    """
    Refuse a connection of the other way; `call` is the name of what is awaited.

    `drivers` are those that a store speaks to; of any other it says so by itself.
    """
    known = (*drivers, *_WRAPPERS)
    kind = next((kind for kind in known if kind.has(connection)), None)
    if _is_inner(connection):
        raise _inner(connection)
    if kind is None or kind.is_awaited == is_awaited:
        return
    lend = f", or lend {kind.other}" if kind.other else ""
    what = f"The {named(connection)} lent"
    if kind.is_awaited:
        msg = (
            f"{what} has to be awaited, so it can't be used by {call}_sync:"
            f" await {call} with it{lend}."
        )
    else:
        is_django_s = _DJANGO.has(connection) or _DJANGO_PROXY.has(connection)
        where = ", in a function that sync_to_async runs" if is_django_s else ""
        msg = (
            f"{what} is synchronous, so it can't be used by an awaited {call}:"
            f" call {call}_sync with it{where}{lend}."
        )
    raise WrongConnection(msg)


def _is_inner(connection: object) -> bool:
    """Say whether SQLAlchemy's async kinds have it inside, as far as it tells."""
    found: Any = connection
    if _SCOPED.has(found):
        found = found()
    if not _SESSION.has(found) and not _CONNECTION.has(found):
        return False
    bind = found.bind if _SESSION.has(found) else found
    return bind is not None and bool(bind.dialect.is_async)


def _inner(connection: object) -> WrongConnection:
    return WrongConnection(
        f"The {named(connection)} lent is the inner one of what has to be awaited:"
        " lend that, to the awaited call."
    )


def is_in_transaction(connection: object) -> bool:
    """Say whether its wrapper has begun a transaction; nothing is begun for that."""
    found: Any = connection
    if _SCOPED.has(found) or _ASYNC_SCOPED.has(found):
        found = found()
    if _DJANGO.has(found) or _DJANGO_PROXY.has(found):
        # One that isn't connected yet doesn't know whether it will be in autocommit.
        is_connected = found.connection is not None
        return is_connected and bool(found.in_atomic_block or not found.autocommit)
    # A method of SQLAlchemy's, a property of the drivers'.
    answer = getattr(found, "in_transaction", False)
    return bool(answer() if callable(answer) else answer)


def unwrap(connection: object) -> Any:  # noqa: ANN401 - of one of the drivers, or not
    """
    Give the driver's connection, in the transaction that its wrapper would have begun.

    Raises:
        WrongConnection: the wrapper is closed, or its transaction has failed.
        StoreUnavailable: the wrapper has no connection yet, and can't make one.
    """
    found: Any = connection
    if _SCOPED.has(found):
        found = found()
    if _SESSION.has(found) or _CONNECTION.has(found):
        driver = _of_sqlalchemy(found)
        if any(kind.has(driver) for kind in (AIOSQLITE, ASYNC_PSYCOPG, ASYNCPG)):
            raise _inner(found)
        return driver
    if _DJANGO_PROXY.has(found):
        found = sys.modules["django.db"].connections[found.alias]
    if _DJANGO.has(found):
        return _of_django(found)
    return found


async def unwrap_awaited(connection: object) -> Any:  # noqa: ANN401 - as above
    """Do what `unwrap` does, for the kinds that are awaited."""
    found: Any = connection
    if _ASYNC_SCOPED.has(found):
        found = found()
    if _ASYNC_SESSION.has(found) or _ASYNC_CONNECTION.has(found):
        try:
            return await found.run_sync(_of_sqlalchemy)
        except sys.modules["sqlalchemy.exc"].SQLAlchemyError as error:
            raise _sqlalchemys(error) from error
    return found


def has_failed(connection: object, error: BaseException) -> None:
    """
    Tell the wrapper that a statement failed, and with it the transaction.

    Django commits what is caught inside of `atomic` unless it is told, and the server
    makes a rollback of that, without a word.
    """
    found: Any = connection
    if _DJANGO_PROXY.has(found):
        found = sys.modules["django.db"].connections[found.alias]
    if _DJANGO.has(found) and found.in_atomic_block:
        found.needs_rollback = True
        found.rollback_exc = error


def has_ended(connection: object, error: BaseException) -> None:
    """
    Tell the wrapper that its transaction was rolled back, in which it would go on.

    What a session has still to write, or is given after that, would be committed.
    """
    found: Any = connection
    if _SCOPED.has(found):
        found = found()
    if _SESSION.has(found) or _CONNECTION.has(found):
        found.rollback()
    else:
        has_failed(found, error)


async def has_ended_awaited(connection: object) -> None:
    """Do what `has_ended` does, for the kinds that are awaited."""
    found: Any = connection
    if _ASYNC_SCOPED.has(found):
        found = found()
    if _ASYNC_SESSION.has(found) or _ASYNC_CONNECTION.has(found):
        await found.rollback()


def closed() -> WrongConnection:
    """Say that the connection lent is closed."""
    return WrongConnection("The connection lent is closed: lend an open one.")


def failed() -> WrongConnection:
    """Say that the transaction of the connection lent has failed."""
    return WrongConnection(
        "The transaction of the connection lent has failed: roll it back first."
    )


def unprepared(error: object) -> WrongConnection:
    """Say that the session behind the connection lent isn't the one it knows."""
    return WrongConnection(
        "The connection lent has prepared a statement that its session doesn't know, or"
        " a pooler's session has that of somebody else: nothing was written. Behind a"
        " pooler have the driver prepare none; for asyncpg, statement_cache_size=0."
        f" ({error})"
    )


def again(*, joins: bool, is_over: bool = False) -> str:
    """
    Say what to do about what passes, as a part of a sentence.

    In the caller's transaction the same statement alone can't succeed any more.
    """
    if is_over and joins:
        return "your transaction is lost, so do all of it again, on a new connection"
    if is_over:
        return f"{AGAIN} on a new connection"
    if joins:
        return "roll your transaction back, and try all of it again"
    return AGAIN


def is_busy(error: object) -> bool:
    """Say whether asyncpg, or what wraps it, was asked while it awaits an answer."""
    return "another operation is in progress" in str(error)


def busy(error: object) -> WrongConnection:
    """Say that the connection lent is used by another coroutine."""
    return WrongConnection(
        "The connection lent has another statement under way: await one after the"
        " other, not in asyncio.gather(), or enqueue all at once with enqueue_many()."
        f" ({error})"
    )


def check_loop(driver: Any) -> None:  # noqa: ANN401 - an asyncpg.Connection
    """
    Refuse one that another event loop made, before it is asked.

    It would raise halfway, and have a statement under way from then on.
    """
    made_by = getattr(driver, "_loop", None)
    if made_by is not None and made_by is not asyncio.get_running_loop():
        msg = (
            "The connection lent was made in another event loop, and works in that"
            " alone: connect in the one that enqueues, as with a pool for each"
            " asyncio.run()."
        )
        raise WrongConnection(msg)


def reads_only(why: str, told: object) -> WrongConnection:
    """Say that nothing can be written on the connection lent."""
    return WrongConnection(
        f"The connection lent only reads, {why}: roll its transaction back, and lend"
        f" one that writes. ({told})"
    )


def alone(call: str) -> WrongConnection:
    """Say that what was called would be committed without the caller's own writes."""
    return WrongConnection(
        f"The connection lent to {call}() is in no transaction, and would commit it"
        " alone: begin one, with your own writes in it."
    )


def _out_of_reach(error: object) -> StoreUnavailable:
    return StoreUnavailable(
        "The connection lent can't reach its database: roll your transaction back, and"
        f" try all of it again. ({error})"
    )


def _of_sqlalchemy(found: Any) -> Any:  # noqa: ANN401 - a Session or a Connection
    try:
        connection = found.connection() if _SESSION.has(found) else found
        if connection.closed:
            raise closed()
        # Or its own commit would have nothing to commit.
        if not connection.in_transaction():
            connection.begin()
        pooled = connection.connection
        driver = pooled.driver_connection
        if ASYNCPG.has(driver) and not driver.is_in_transaction():
            check_loop(driver)
            _begin(pooled, connection.dialect)
    except sys.modules["sqlalchemy.exc"].UnboundExecutionError as error:
        raise _unbound(found) from error
    except sys.modules["sqlalchemy.exc"].SQLAlchemyError as error:
        raise _sqlalchemys(error) from error
    except OSError as error:  # as asyncpg says that nobody is there
        raise _out_of_reach(error) from error
    return driver


def _unbound(session: object) -> WrongConnection:
    # SQLAlchemy 2.1 has made it public.
    if getattr(session, "binds", getattr(session, "_Session__binds", None)):
        return WrongConnection(
            "The session lent has several databases: lend the connection of one, as in"
            " session.connection(bind_arguments={'mapper': Order})."
        )
    return WrongConnection(
        "The session lent is bound to no database: bind it, as in Session(engine), or"
        " lend the connection on which it writes."
    )


def _begin(pooled: Any, dialect: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
    """Begin as the adapter of asyncpg does, at the first statement that it is given."""
    try:
        cursor = pooled.cursor()
        cursor.execute(";")  # which is none, and is run
        cursor.close()
    except dialect.dbapi.Error as error:
        if is_busy(error):
            raise busy(error) from error
        raise _out_of_reach(error) from error


def _sqlalchemys(error: Any) -> RowlockError:  # noqa: ANN401 - it isn't imported
    exc: Any = sys.modules["sqlalchemy.exc"]
    if isinstance(error, exc.PendingRollbackError):
        return failed()
    # A session of which two coroutines want its first connection.
    if is_busy(error) or error.code == "isce":
        return busy(error)
    if isinstance(error, exc.DBAPIError):
        return _out_of_reach(error.orig)
    return WrongConnection(f"The connection lent can't be used: {error}")


def _of_django(wrapper: Any) -> Any:  # noqa: ANN401 - a DatabaseWrapper
    if wrapper.needs_rollback:
        raise failed()
    db: Any = sys.modules["django.db"]
    try:
        wrapper.validate_thread_sharing()
        wrapper.ensure_connection()
    except db.OperationalError as error:
        raise _out_of_reach(error) from error
    except (db.Error, db.transaction.TransactionManagementError) as error:
        msg = f"The connection lent can't be used: {error}"
        raise WrongConnection(msg) from error
    return wrapper.connection
