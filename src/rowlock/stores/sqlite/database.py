"""
One database as this process has it open: its threads, and who sleeps on it.

The threads start when they are needed and after a fork anew. In memory the one
connection writes and reads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from rowlock._errors import ConfigError, StoreUnavailable
from rowlock.stores.grace import Grace
from rowlock.stores.news import News
from rowlock.stores.sqlite import connection as connections
from rowlock.stores.sqlite import errors, migrate, rows
from rowlock.stores.sqlite.between import FileBetween, MemoryBetween
from rowlock.stores.sqlite.checkpoint import IS_ELECTED
from rowlock.stores.sqlite.connection import MEMORY
from rowlock.stores.sqlite.thread import Pending, Run, Thread, Work, closed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock._clock import Clock
    from rowlock._store import Migration
    from rowlock.stores.sqlite.connection import Trace

R = TypeVar("R")

_log = logging.getLogger("rowlock.store")


class Database:
    """What runs on a database: writes in one thread, reads in another."""

    def __init__(
        self, path: str, *, synchronous: str, clock: Clock, trace: Trace | None
    ) -> None:
        self.path = path
        self.is_new: bool = False
        self.grace: Grace = Grace(clock)
        self.news: News = News(clock, self._hurry)
        self._synchronous = synchronous
        self._clock = clock
        self._trace = trace
        self._lock = threading.Lock()
        self._is_open = False
        self._writer: Thread | None = None
        self._reader: Thread | None = None
        self._between: MemoryBetween | FileBetween | None = None
        self._applied: Sequence[Migration] = ()
        _databases.add(self)

    @property
    def is_open(self) -> bool:
        """Whether `open` has connected and migrated."""
        return self._is_open

    async def open(self) -> Sequence[Migration]:
        """Connect and migrate what is pending; a second time does nothing."""
        with self._lock:
            if self._is_open:
                return ()
            if self._writer is None:
                self._writer = self._start_writer()
            writer = self._writer
        try:
            await asyncio.wrap_future(writer.connected)
        except Exception:
            with self._lock:
                if self._writer is writer:
                    self._writer = None
            raise
        with self._lock:
            applied, self._applied = self._applied, ()
            self._is_open = True
        return applied

    async def pending(self) -> Sequence[Migration]:
        """Name what `open` would apply, and change nothing."""
        if self.path == MEMORY:
            return () if self._is_open else migrate.all_migrations()
        return await asyncio.to_thread(self._read_pending)

    async def close(self) -> None:
        """Finish what was handed over, then let go of the connections."""
        with self._lock:
            threads = [thread for thread in (self._reader, self._writer) if thread]
            self._reader = self._writer = None
            self._is_open = False
        # The writer last: a reader's connection would leave the log's files behind.
        for thread in threads:
            thread.stop()
            await asyncio.wrap_future(thread.ended)
        # Nothing wakes them now: a worker of this app looks up, and opens it again.
        self.news.tell()

    def abandon(self) -> None:
        """Let go of the connections as `close` does, where nobody can call that."""
        reader, writer = self._reader, self._writer
        if reader is not None and writer is not None:
            reader.stop().add_done_callback(lambda _: writer.stop())
        elif writer is not None:
            writer.stop()

    async def write(
        self, run: Run[R], *, peek: Run[R | Pending] | None = None, news: bool = False
    ) -> R:
        """Run something in a transaction of its own; `news`: it may make jobs due."""
        writer = self._for_writing()
        return await asyncio.wrap_future(writer.submit(Work(run, peek=peek, news=news)))

    async def read(self, run: Run[R]) -> R:
        """Run something that only reads, on a snapshot."""
        reader = self._for_reading()
        return await asyncio.wrap_future(reader.submit(Work(None, peek=run)))

    def connect(self) -> sqlite3.Connection:
        """Connect once more, for what takes its time; the file is there."""
        return connections.connect_writer(
            self.path,
            synchronous=self._synchronous,
            autocheckpoint=True,
            trace=self._trace,
        )

    def lent(self) -> None:
        """Note what was written on a connection that a user has lent."""
        between = self._between
        if isinstance(between, FileBetween):
            between.lent()

    def _for_writing(self) -> Thread:
        writer = self._writer
        if writer is not None and self._is_open and writer.is_live:
            return writer
        with self._lock:
            if not self._is_open:
                raise closed(self.path)
            if self._writer is None or not self._writer.is_live:
                self._writer = self._start_writer()
            return self._writer

    def _for_reading(self) -> Thread:
        if self.path == MEMORY:
            return self._for_writing()
        reader = self._reader
        if reader is not None and self._is_open and reader.is_live:
            return reader
        try:
            with self._lock:
                if not self._is_open:
                    raise closed(self.path)
                if self._reader is None or not self._reader.is_live:
                    self._reader = self._start_reader()
                return self._reader
        except StoreUnavailable:
            # Since Python 3.12 no thread starts at exit. The writer can read too.
            return self._for_writing()

    def _hurry(self) -> None:
        """Have the writer look around now: somebody sleeps, or nobody any more."""
        between = self._between
        if between is not None:
            between.hurry()

    def _nudge(self) -> None:
        writer = self._writer
        if writer is not None:
            writer.nudge()

    def _start_writer(self) -> Thread:
        if self.path == MEMORY and self._is_open:
            msg = (
                "The database in memory stays with the process that opened it, and this"
                " one was forked from that: use a file."
            )
            raise ConfigError(msg)
        self.grace = Grace(self._clock)  # a fresh process is in its grace
        self._between = (
            MemoryBetween(self.news, self.grace)
            if self.path == MEMORY
            else FileBetween(self.path, self.news, self.grace, self._nudge)
        )
        connect = self._reconnect if self._is_open else self._connect
        writer = Thread(
            "rowlock-sqlite-writer", self.path, connect, self._clock, self._between
        )
        writer.start()
        return writer

    def _start_reader(self) -> Thread:
        connect = partial(connections.connect_reader, self.path, trace=self._trace)
        reader = Thread("rowlock-sqlite-reader", self.path, connect, self._clock)
        reader.start()
        return reader

    def _reconnect(self) -> sqlite3.Connection:
        """Connect anew, in a forked child or to a file that was replaced."""
        try:
            connection = self._connect()
        except ConfigError as error:
            # Whoever waits has a store that was open: to them it is away.
            raise StoreUnavailable(str(error)) from error
        _log.info("The database %s was opened anew.", self.path)
        return connection

    def _connect(self) -> sqlite3.Connection:
        """Connect and migrate, in the writer's thread."""
        is_file = self.path != MEMORY
        if is_file:
            connections.check_path(self.path)
        is_new = is_file and not Path(self.path).exists()
        try:
            connection = connections.connect_writer(
                self.path,
                synchronous=self._synchronous,
                autocheckpoint=not IS_ELECTED,
                trace=self._trace,
            )
            try:
                now = rows.to_micros(self._clock.now())
                self._applied = migrate.migrate(connection, now, path=self.path)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise errors.translate(error, self.path, opening=True) from error
        self.is_new = is_new and bool(self._applied)
        return connection

    def _read_pending(self) -> Sequence[Migration]:
        if not Path(self.path).exists():
            return migrate.all_migrations()
        try:
            connection = connections.connect_reader(self.path, trace=self._trace)
            try:
                return migrate.pending(connection, self.path)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise errors.translate(error, self.path, opening=True) from error

    def after_fork(self) -> None:
        """Begin anew in a forked child, without a touch on its parent's connections."""
        if self._between is not None:
            self._between.forget()
        # What another thread held at that moment, it would hold for ever.
        self._lock = threading.Lock()
        self.grace = Grace(self._clock)
        self._writer = self._reader = self._between = None
        self.news = News(self._clock, self._hurry)


_databases: WeakSet[Database] = WeakSet()


def _after_fork() -> None:
    for database in tuple(_databases):
        database.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
