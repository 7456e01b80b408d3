"""
The SQLite store: the whole of `Store` on one file, or in memory.

Writes go to one thread with the only connection of this process that writes, reads to
another, so that a long one holds up nothing; in memory there is one connection for
both. No method is bound to an event loop or a thread.
"""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rowlock._clock import Clock, SystemClock
from rowlock._errors import StoreUnavailable
from rowlock._job import Status
from rowlock.stores.sqlite import claim as claiming
from rowlock.stores.sqlite import connection as connections
from rowlock.stores.sqlite import finish as finishing
from rowlock.stores.sqlite import migrate as migrating
from rowlock.stores.sqlite import read, rows
from rowlock.stores.sqlite.connection import MEMORY
from rowlock.stores.sqlite.enqueue import enqueue
from rowlock.stores.sqlite.thread import Task, Thread, Work
from rowlock.stores.sqlite.wake import News

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import timedelta

    from rowlock._job import ClaimKey, Job, NewJob, Outcome
    from rowlock._store import Claimed, Demand, Renewal, Settled, Wakeups

R = TypeVar("R")


class SQLiteStore:
    """A `Store` in a file, or in memory."""

    def __init__(
        self,
        path: str,
        *,
        synchronous: str = "full",
        clock: Clock | None = None,
        trace: connections.Trace | None = None,
    ) -> None:
        connections.check_version()
        self._path = path if path == MEMORY else os.path.abspath(path)
        self._synchronous = synchronous
        self._clock = clock or SystemClock()
        self._trace = trace
        self._lock = threading.Lock()
        self._writer: Thread | None = None
        self._reader: Thread | None = None
        self._news = News(self._clock, lambda _: None)
        self._turn = 0
        self.is_new = False

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None) -> SQLiteStore:
        """Read a URL: `sqlite:///jobs.db`, `sqlite:////var/jobs.db`, `sqlite://`."""
        path = url.removeprefix("sqlite://").removeprefix("/")
        return cls(path or MEMORY, clock=clock)

    @property
    def url(self) -> str:
        """Where this store is: absolute."""
        return f"sqlite:///{self._path}"

    async def open(self) -> None:
        """Connect, and migrate what is pending; see `Store.open`."""
        with self._lock:
            if self._writer is not None:
                return
            self.is_new = self._path != MEMORY and not Path(self._path).exists()
            self._writer = Thread(
                "rowlock-sqlite-writer",
                self._path,
                partial(
                    connections.connect_writer,
                    self._path,
                    synchronous=self._synchronous,
                    trace=self._trace,
                ),
                self._clock,
                self,
            )
            self._writer.start()
        await asyncio.wrap_future(self._writer.connected)
        await self._write(partial(migrating.apply, path=self._path))

    async def close(self) -> None:
        """Finish what was handed over, then let go of every connection."""
        with self._lock:
            threads = (self._reader, self._writer)
            self._reader = self._writer = None
        for thread in threads:
            if thread is not None:
                await asyncio.wrap_future(thread.stop())

    async def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int | None]:
        """Insert all of these jobs, or none; see `Store.enqueue`."""
        return await self._write(partial(enqueue, jobs=jobs), news=True)

    async def claim(
        self, demand: Demand, *, worker: str, lease: timedelta, alone: bool = False
    ) -> Claimed:
        """Take due jobs for this worker; see `Store.claim`."""
        self._turn += 1
        return await self._hand(
            Work(
                partial(
                    claiming.claim,
                    demand=demand,
                    turn=self._turn,
                    worker=worker,
                    lease=rows.to_span(lease),
                    alone=alone,
                ),
                peek=partial(claiming.peek, demand=demand, turn=self._turn),
            )
        )

    async def renew(
        self,
        keys: Collection[ClaimKey],
        *,
        worker: str,
        lease: timedelta,
        abandoned: bool = False,
    ) -> Renewal:
        """Extend these claims by `lease` from now; see `Store.renew`."""
        return await self._write(
            partial(
                finishing.renew,
                keys=keys,
                worker=worker,
                lease=rows.to_span(lease),
                abandoned=abandoned,
            )
        )

    async def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        """Write what these claims ended as; see `Store.finish`."""
        news = any(o.status is Status.PENDING or o.spawned for o in outcomes)
        return await self._write(partial(finishing.finish, outcomes=outcomes), news=news)

    def wakeups(self) -> Wakeups:
        """Subscribe to news of this store; close it when done."""
        return self._news.subscribe()

    async def get(self, ids: Sequence[int]) -> Sequence[Job]:
        """Read jobs by id; see `Store.get`."""
        return await self._read(partial(read.get, ids=ids))

    def committed(self, connection, *, news: bool) -> None:
        if news:
            self._news.tell()

    def due_in(self):
        return None

    def look(self, connection):
        return None

    async def _write(self, run: Task[R], *, news: bool = False) -> R:
        return await self._hand(Work(run, news=news))

    async def _read(self, run: Task[R]) -> R:
        return await self._hand(Work(None, peek=run))

    async def _hand(self, work: Work[R]) -> R:
        thread = self._writer
        if thread is None:
            raise StoreUnavailable(f"The store {self._path} is closed: open it first.")
        return await asyncio.wrap_future(thread.submit(work))
