"""
A connection that the caller lends, as the store's statements run on it.

There are four drivers: psycopg's two, psycopg2 and asyncpg. Values go in as text, of
the type that the statement says, and a statement that runs here answers text: no
loader, codec or row factory that the caller has set takes part, nor a setting of the
session.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncCursor, Cursor
from psycopg.abc import Buffer
from psycopg.pq import DiagnosticField, TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.string import StrDumperUnknown, TextLoader

from rowlock._errors import StoreUnavailable, WrongConnection
from rowlock.stores import guests
from rowlock.stores.postgres import errors

R = TypeVar("R")

Texts: TypeAlias = tuple[Any, ...]  # of `str | None`, as the statement says
Values: TypeAlias = Mapping[str, str | None]

# What is done on a guest, sync or async alike: yields the name of a statement and its
# values, and is sent the rows, or thrown the error. Written once, driven by either.
Steps: TypeAlias = Generator[tuple[str, dict[str, str | None]], Sequence[Texts], R]


class When(NamedTuple):
    """At which moment a statement has failed."""

    joins: bool  # in the caller's transaction, which has failed with it
    commits: bool  # as a transaction of its own, perhaps once that was committed


class Guest(Protocol):
    """What a piece of work may ask of the connection that it runs on."""

    @property
    def connection(self) -> Any:  # noqa: ANN401 - of any of the drivers
        """The driver's connection."""
        ...

    @property
    def commits(self) -> bool:
        """Whether the next statement is a transaction of its own (law 15)."""
        ...

    @property
    def shown(self) -> str:
        """Where it leads to."""
        ...

    def check(self) -> None:
        """Refuse a connection on which nothing can be written."""
        ...

    def translate(self, error: Exception, shown: str, when: When) -> Exception:
        """Say what an error of the driver means; other errors are given back."""
        ...


class SyncGuest(Guest, Protocol):
    """A guest on which a statement is run."""

    def run(self, statement: bytes, values: Values) -> Sequence[Texts]:
        """Run a statement; its rows."""
        ...


class AsyncGuest(Guest, Protocol):
    """A guest on which a statement is awaited."""

    async def run(self, statement: bytes, values: Values) -> Sequence[Texts]:
        """Run a statement; its rows."""
        ...


DRIVERS: Final = (
    *(guests.PSYCOPG, guests.ASYNC_PSYCOPG),
    *(guests.ASYNCPG, guests.PSYCOPG2),
)

Work: TypeAlias = Callable[[Guest], Steps[R]]


def of(connection: object) -> SyncGuest | None:
    """Take in a driver's connection, None where it is no synchronous one."""
    if guests.PSYCOPG.has(connection):
        return PsycopgGuest(connection)
    if guests.PSYCOPG2.has(connection):
        return Psycopg2Guest(connection)
    return None


def of_awaited(connection: object) -> AsyncGuest | None:
    """Take in a driver's connection, None where it is none that is awaited."""
    if guests.ASYNC_PSYCOPG.has(connection):
        return AsyncPsycopgGuest(connection)
    if guests.ASYNCPG.has(connection):
        return AsyncpgGuest(connection)
    return None


class _Libpq:
    """What connections over libpq have in common."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - of one of three kinds
        self.connection: Any = connection

    @property
    def commits(self) -> bool:
        """Whether the next statement is a transaction of its own (law 15)."""
        status = self.connection.info.transaction_status
        return bool(self.connection.autocommit) and status == TransactionStatus.IDLE

    @property
    def shown(self) -> str:
        """Where it leads to."""
        info = self.connection.info
        return f"{info.dbname} on {info.host}:{info.port}"

    def check(self) -> None:
        """Refuse a connection on which nothing can be written."""
        if self.connection.closed:
            raise guests.closed()
        if self.connection.info.transaction_status == TransactionStatus.INERROR:
            raise guests.failed()


class _Psycopg(_Libpq):
    """What psycopg's two kinds have in common."""

    def translate(self, error: Exception, shown: str, when: When) -> Exception:
        """Say what an error of the driver means; other errors are given back."""
        if isinstance(error, UnicodeEncodeError):
            return _unencodable()
        if not isinstance(error, psycopg.Error):
            return error
        return _translated(error, error, shown, when, is_over=self.connection.closed)


class PsycopgGuest(_Psycopg):
    """A `psycopg.Connection`."""

    def run(self, statement: bytes, values: Values) -> Sequence[Texts]:
        """Run a statement; its rows."""
        with Cursor(self.connection, row_factory=tuple_row) as cursor:
            _speak_text(cursor)
            cursor.execute(statement, values, prepare=False)
            # In a pipeline there is no result before the rows are asked for.
            if cursor.pgresult is None or cursor.description:
                return cursor.fetchall()
            return ()


class AsyncPsycopgGuest(_Psycopg):
    """A `psycopg.AsyncConnection`."""

    async def run(self, statement: bytes, values: Values) -> Sequence[Texts]:
        """Run a statement; its rows."""
        async with AsyncCursor(self.connection, row_factory=tuple_row) as cursor:
            _speak_text(cursor)
            await cursor.execute(statement, values, prepare=False)
            if cursor.pgresult is None or cursor.description:
                return await cursor.fetchall()
            return ()


class _Texts(TextLoader):
    """Reads texts as such, also where the client_encoding is SQL_ASCII."""

    def load(self, data: Buffer) -> str:
        text = super().load(data)
        return text if isinstance(text, str) else text.decode(errors="replace")


def _speak_text(cursor: Cursor[Any] | AsyncCursor[Any]) -> None:
    """Have this cursor alone read and write texts as they are, whatever is set."""
    cursor.adapters.register_dumper(str, StrDumperUnknown)
    cursor.adapters.register_loader("text", _Texts)


class Psycopg2Guest(_Libpq):
    """A connection of psycopg2, which SQLAlchemy 2.0 takes where none is named."""

    def run(self, statement: bytes, values: Values) -> Sequence[Texts]:
        """Run a statement; its rows."""
        extensions = _module("psycopg2.extensions")
        with self.connection.cursor(cursor_factory=extensions.cursor) as cursor:
            extensions.register_type(extensions.UNICODE, cursor)
            cursor.execute(statement.decode(), values)
            found: Sequence[Texts] = cursor.fetchall() if cursor.description else ()
            return found

    def translate(self, error: Exception, shown: str, when: When) -> Exception:
        """Say what an error of the driver means; other errors are given back."""
        if isinstance(error, UnicodeEncodeError):
            return _unencodable()
        if not isinstance(error, _module("psycopg2").Error):
            return error
        known: psycopg.Error
        state = getattr(error, "pgcode", None)
        if state is None:
            known = psycopg.OperationalError(str(error))
        else:
            diag = getattr(error, "diag", None)
            known = _as_psycopgs(
                state,
                getattr(diag, "message_primary", None) or str(error),
                constraint=getattr(diag, "constraint_name", None),
                function=getattr(diag, "source_function", None),
            )
        is_over = bool(self.connection.closed)
        return _translated(known, error, shown, when, is_over=is_over)


class AsyncpgGuest:
    """An `asyncpg.Connection`, or what its pool lends of one."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - it isn't imported
        # A pool's stands for a connection until it is given back, and has none then.
        self.connection: Any = getattr(connection, "_con", connection)

    @property
    def commits(self) -> bool:
        """Whether the next statement is a transaction of its own (law 15)."""
        return not self.connection.is_in_transaction()

    @property
    def shown(self) -> str:
        """Where it leads to, as far as asyncpg tells."""
        parameters = getattr(self.connection, "_params", None)
        database = getattr(parameters, "database", None) or "another database"
        address = getattr(self.connection, "_addr", None)
        if isinstance(address, tuple):
            return f"{database} on {address[0]}:{address[1]}"
        return str(database)

    def check(self) -> None:
        """Refuse a connection on which nothing can be written."""
        if self.connection is None or self.connection.is_closed():
            raise guests.closed()
        guests.check_loop(self.connection)

    async def run(self, statement: bytes, values: Values) -> Sequence[Texts]:
        """Run a statement; its rows."""
        text, names = _numbered(statement)
        given = [values[name] for name in names]
        record = _module("asyncpg").Record
        found = await self.connection.fetch(text, *given, record_class=record)
        return [tuple(row) for row in found]

    def translate(self, error: Exception, shown: str, when: When) -> Exception:
        """Say what an error of the driver means; other errors are given back."""
        asyncpg = _module("asyncpg")
        is_closed = self.connection.is_closed()
        if isinstance(error.__cause__, UnicodeEncodeError):
            return _unencodable()
        if isinstance(error, asyncpg.PostgresError):
            known = _as_psycopgs(
                error.sqlstate,
                str(error),
                constraint=getattr(error, "constraint_name", None),
                function=getattr(error, "server_source_function", None),
            )
        elif isinstance(error, asyncpg.InterfaceError) and not is_closed:
            if guests.is_busy(error):
                return guests.busy(error)
            return WrongConnection(f"The connection lent can't be used: {error}.")
        # One that waited for longer than `command_timeout` is an OSError, too.
        elif isinstance(error, (asyncpg.InterfaceError, OSError)):
            known = psycopg.InterfaceError(str(error) or type(error).__name__)
        else:
            return error
        is_over = is_closed or isinstance(known, _LAST_WORDS)
        return _translated(known, error, shown, when, is_over=is_over)


def _module(name: str) -> ModuleType:
    # Loaded, or there were no connection of it.
    return sys.modules[name]


_PARAMETER = re.compile(r"%\((\w+)\)s|%%")


@lru_cache(maxsize=256)
def _numbered(statement: bytes) -> tuple[str, Sequence[str]]:
    """Write a statement as asyncpg takes it, with the names of its values in order."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return "%"
        if name not in names:
            names.append(name)
        # Or the type that follows would be the parameter's, and not take a text.
        return f"CAST(${names.index(name) + 1} AS text)"

    return _PARAMETER.sub(number, statement.decode()), names


def _as_psycopgs(
    state: str | None, text: str, *, constraint: str | None, function: str | None
) -> psycopg.Error:
    """Write an error of another driver as psycopg would have raised it."""
    try:
        kind = psycopg.errors.lookup(state or "")
    except KeyError:  # a state that somebody's trigger has made up
        kind = psycopg.DatabaseError
    told: dict[int, str | None] = {
        DiagnosticField.CONSTRAINT_NAME: constraint,
        DiagnosticField.SOURCE_FUNCTION: function,
    }
    info = {at: None if value is None else value.encode() for at, value in told.items()}
    return kind(text, info=info, encoding="utf-8")


def _unencodable() -> WrongConnection:
    return WrongConnection(
        "The connection lent can't send a text of this in its client_encoding, and"
        " nothing was written: set that to UTF8."
    )


def _translated(
    error: psycopg.Error,
    told: Exception,
    shown: str,
    when: When,
    *,
    is_over: bool,
) -> Exception:
    # Of the caller's own transaction, whose author may be waiting for just these.
    if isinstance(error, _FOR_THE_CALLER):
        return told
    if isinstance(error, psycopg.errors.InFailedSqlTransaction):
        return guests.failed()
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        why = "as its transaction is READ ONLY, or as it leads to a standby"
        return guests.reads_only(why, errors.told(error))
    if isinstance(error, _UNPREPARED):
        return guests.unprepared(errors.told(error))
    again = guests.again(joins=when.joins, is_over=is_over)
    if is_over and not when.commits:
        return StoreUnavailable(
            f"The connection lent to {shown} has ended: {again}. ({errors.told(error)})"
        )
    return errors.translate(
        error, shown, is_over=is_over, commits=when.commits, again=again
    )


_FOR_THE_CALLER = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
)
_UNPREPARED = (
    psycopg.errors.DuplicatePreparedStatement,
    psycopg.errors.InvalidSqlStatementName,
)
# After these the server ends the connection, of which asyncpg hears a little later.
_LAST_WORDS = (psycopg.errors.AdminShutdown, psycopg.errors.CrashShutdown)
