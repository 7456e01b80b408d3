"""
One connection of our own, set up, and what runs on it.

Parameters travel as text, of the type that the statement says: so a statement is the
same one whatever numbers it is given, and is planned once a connection.

Behind a pooler nothing outlives its transaction, neither settings nor prepared
statements: the server's session is somebody else's afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, TypeAlias

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.conninfo import make_conninfo
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.string import TextLoader

from rowlock._clock import Clock
from rowlock._errors import ConfigError
from rowlock.stores.postgres import errors
from rowlock.stores.postgres.address import Parameters

Row: TypeAlias = tuple[Any, ...]  # the statement says what is in it
Value: TypeAlias = str | date | None

OLDEST_SERVER = 150000
# Seconds; longer than session.sql has the server work on a statement.
PATIENCE = 35.0
MOST_KEPT_ROWS = 20


class _Adapters:
    """How values of our own connections are read: JSON stays text."""

    connection: AsyncConnection[Row] | None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        for name in ("json", "jsonb"):
            self.adapters.register_loader(name, TextLoader)
        self.connection = None


_ADAPTERS = _Adapters()

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


class _InstantLoader(TimestamptzLoader):
    """Reads what Python has no year for, as only a hand writes it, as the nearest."""

    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except psycopg.DataError:
            text = bytes(data)
            is_early = text.startswith(b"-") or text.endswith(b"BC")
            return EARLIEST if is_early else LATEST


class _Lenient(_Adapters):
    """The same for odd rows: the driver's own loader is several times as quick."""

    def __init__(self, connection: AsyncConnection[Row]) -> None:
        super().__init__()
        self.adapters.register_loader("timestamptz", _InstantLoader)
        self.connection = connection


_BEGIN = b"BEGIN"
# Behind a pooler, where what session.sql sets comes too late for it. Not READ WRITE, at
# which a standby refuses to be read.
_BEGIN_POOLED = b"BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED"
_COMMIT = b"COMMIT"


class Session:
    """A connection, and the statements that run on it, each a transaction or in one."""

    def __init__(
        self,
        connection: AsyncConnection[Row],
        statements: Mapping[str, bytes],
        clock: Clock | None,
        shown: str,
    ) -> None:
        self.connection = connection
        self._statements = statements
        self._clock = clock
        self._shown = shown
        # Kept, since they know how to read their statement's columns.
        self._cursors: dict[bytes, AsyncCursor[Row]] = {}
        # Whether what is prepared on it no longer holds: there is no other cure than a
        # new connection.
        self.is_stale: bool = False
        # Whether something was committed since this session was lent.
        self.has_written: bool = False
        # Whether a pooler is between, which may hand on the server's session.
        self.is_pooled: bool = False
        # For how long an answer is awaited, in seconds; None where the server sets no
        # bound either.
        self.patience: float | None = PATIENCE
        self._has_news = _watch(connection.pgconn.socket)

    async def set_up(self) -> None:
        """Have its statements run as they must, whatever the database says."""
        usual = self.connection.prepare_threshold
        self.connection.prepare_threshold = None
        ((*_, self.is_pooled),) = await self.run("session", **self._served)
        if not self.is_pooled:
            self.connection.prepare_threshold = usual

    @property
    def _served(self) -> dict[str, str]:
        return {"process": str(self.connection.pgconn.backend_pid)}

    @property
    def is_usable(self) -> bool:
        """Whether it may be used again: open, and in no transaction."""
        pgconn = self.connection.pgconn
        return pgconn.transaction_status == TransactionStatus.IDLE

    @property
    def is_live(self) -> bool:
        """Whether it is as it was left. An idle server says nothing but farewell."""
        return self.is_usable and not self._has_news()

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return not self.is_usable

    def text(self, operation: str) -> str:
        """Give a statement that is only to be shown."""
        return self._statements[operation].decode()

    async def run(self, operation: str, **values: Value) -> list[Row]:
        """Run a statement; its rows."""
        if self._clock is not None:
            values["now"] = self._clock.now().isoformat()
        return await self.execute(self._statements[operation], values)

    async def execute(
        self, statement: bytes, values: Mapping[str, Value] | None = None
    ) -> list[Row]:
        """Run a text that is no statement of ours; without values it may be several."""
        connection = self.connection
        commits = statement == _COMMIT or (self.is_usable and writes(statement))
        cursor = self._cursors.pop(statement, None) or connection.cursor()
        try:
            with self._bounded():
                await self._send(cursor, statement, values)
            result = cursor.pgresult
            if result is None or result.status != ExecStatus.TUPLES_OK:
                return []
            try:
                rows = await cursor.fetchall()
            except psycopg.DataError:
                rows = self._read_leniently(result)
        except psycopg.Error as error:
            self.is_stale |= errors.is_stale(error)
            raise errors.translate(
                error,
                self._shown,
                is_over=connection.closed,
                commits=commits,
            ) from error
        self.has_written |= commits
        # A cursor keeps its last result, and with it the payloads.
        if len(rows) <= MOST_KEPT_ROWS:
            self._cursors[statement] = cursor
        return rows

    async def _send(
        self,
        cursor: AsyncCursor[Row],
        statement: bytes,
        values: Mapping[str, Value] | None,
    ) -> None:
        if not self.is_pooled or self.is_in_transaction:
            await cursor.execute(statement, values, prepare=values is not None)
        elif not statement.startswith(_BEGIN):
            # One way to the server and back, as without a pooler.
            try:
                async with self.connection.pipeline():
                    await self._begin(_BEGIN_POOLED)
                    await cursor.execute(statement, values)
                    await self.connection.execute(_COMMIT)
            except BaseException:
                await self._roll_back()
                raise
        else:
            async with self.connection.pipeline():
                await self._begin(_BEGIN_POOLED if statement == _BEGIN else statement)

    async def _begin(self, statement: bytes) -> None:
        await self.connection.execute(statement)
        await self.connection.execute(self._statements["session"], self._served)

    async def _roll_back(self) -> None:
        # Where the connection can't any more, the server does it by itself.
        with contextlib.suppress(psycopg.Error), self._bounded():
            await self.connection.execute("ROLLBACK", prepare=False)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """
        Give up a connection on which no answer comes, though the server would stop.

        A frozen server, or whoever answers for a lost one, takes bytes for ever.
        """
        if self.patience is None:
            yield
            return
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(self.patience, cut, self.connection.pgconn)
        try:
            yield
        finally:
            alarm.cancel()

    async def load(self, operation: str, rows: Iterable[Row]) -> None:
        """Run a COPY, which these rows go into, in a transaction."""
        connection = self.connection
        # Given values, though none, psycopg reads a % that is written twice as one.
        copying = connection.cursor().copy(self._statements[operation], {})
        try:
            async with copying as copy:
                for row in rows:
                    await copy.write_row(row)
        except psycopg.Error as error:
            raise errors.translate(
                error, self._shown, is_over=connection.closed
            ) from error

    def _read_leniently(self, result: PGresult) -> list[Row]:
        transformer = Transformer(_Lenient(self.connection))
        transformer.set_pgresult(result)
        return transformer.load_rows(0, result.ntuples, tuple)

    @asynccontextmanager
    async def transaction(self, begin: bytes = _BEGIN) -> AsyncIterator[None]:
        """Make what is run inside all or none."""
        await self.execute(begin)
        try:
            yield
        except BaseException:
            await self._roll_back()
            raise
        await self.execute(_COMMIT)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Read one snapshot with several statements, each planned as usual."""
        async with self.transaction(
            b"BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        ):
            await self.run("reading")
            yield

    async def close(self) -> None:
        """End the connection."""
        await self.connection.close()

    def cut(self) -> None:
        """Have whoever uses it see it broken; any thread."""
        cut(self.connection.pgconn)

    def drop(self) -> None:
        """
        End the connection at once, from anywhere: its loop may be gone.

        Nobody may be using it: libpq would go on with what was freed.
        """
        self.connection.pgconn.finish()


_WRITING = re.compile(rb"\b(INSERT|DELETE|(?<!FOR )UPDATE|add_each)\b")


@lru_cache(maxsize=256)
def writes(statement: bytes) -> bool:
    """
    Say whether a statement writes a row.

    A connection that breaks in another leaves nothing unknown: an enqueue whose BEGIN
    was lost can be tried again, without a key too.
    """
    return _WRITING.search(statement) is not None


async def connect(
    parameters: Parameters,
    statements: Mapping[str, bytes],
    clock: Clock | None,
    shown: str,
) -> Session:
    """
    Connect and set the session up.

    Raises:
        ConfigError: the server can't be what the URL says, or is too old.
        StoreUnavailable: out of reach.
    """
    try:
        connection: AsyncConnection[Row] = await AsyncConnection.connect(
            make_conninfo(**parameters, client_encoding="utf8"),
            autocommit=True,
            context=_ADAPTERS,
        )
    except psycopg.Error as error:
        raise errors.translate_connecting(error, shown) from error
    try:
        _check_version(connection.info.server_version, shown)
        session = Session(connection, statements, clock, shown)
        await session.set_up()
    except BaseException:
        connection.pgconn.finish()
        raise
    return session


def _check_version(version: int, shown: str) -> None:
    if version < OLDEST_SERVER:
        msg = (
            f"The database {shown} is PostgreSQL {version // 10000}, and Rowlock needs"
            f" {OLDEST_SERVER // 10000} or later: upgrade the server."
        )
        raise ConfigError(msg)


def cut(pgconn: PGconn) -> None:
    """Have whoever waits for an answer on a connection see it broken; any thread."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(pgconn.socket)) as own,
    ):
        own.shutdown(socket.SHUT_RDWR)


def _watch(number: int) -> Callable[[], object]:
    """Give a question whether there is anything to read."""
    if not hasattr(select, "poll"):  # Windows
        return lambda: select.select([number], [], [], 0)[0]
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return lambda: poll.poll(0)
