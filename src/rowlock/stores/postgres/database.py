"""
One database as this process works on it: connections by event loop, and who sleeps.

Any thread with any loop may use it. What a loop has is made when it first asks, and
ends with it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from rowlock._clock import Clock, SystemClock
from rowlock._errors import (
    ConfigError,
    StoreError,
    StoreUnavailable,
)
from rowlock.stores.grace import Grace
from rowlock.stores.news import News
from rowlock.stores.postgres import direct, migrate, notify, sessions
from rowlock.stores.postgres.address import Address
from rowlock.stores.postgres.bounds import Arrival, Bounds
from rowlock.stores.postgres.claim import Claimer
from rowlock.stores.postgres.hearing import Hearing
from rowlock.stores.postgres.home import Home, close, close_there, end, send
from rowlock.stores.postgres.listen import Listener
from rowlock.stores.postgres.notify import Teller
from rowlock.stores.postgres.pool import Loan, Pool, closed, to_its_end
from rowlock.stores.postgres.sessions import Row, Session
from rowlock.stores.postgres.statements import GIVEN_NOW, SERVERS_NOW, statements

_log = logging.getLogger("rowlock.store")

R = TypeVar("R")
A_co = TypeVar("A_co", covariant=True)

_CLOSING = 5.0  # seconds for another thread's loop to close its connections
_EXITING = 1.0  # the same while the interpreter exits
_LOOK = 0.005


class Announced(Protocol[A_co]):
    """An answer, and the news that come with it."""

    @property
    def answer(self) -> A_co:
        """The answer."""
        ...

    @property
    def arrivals(self) -> Sequence[Arrival]:
        """News of jobs that are due, or will be."""
        ...


class Database:
    """What runs on a database."""

    def __init__(self, address: Address, clock: Clock | None) -> None:
        self.shown: str = address.shown
        self.schema: str = address.schema
        self._address = address
        # A clock of a test is handed to every statement.
        self._given_clock = None if isinstance(clock, SystemClock) else clock
        self._clock = clock or SystemClock()
        self.statements: Mapping[str, bytes] = statements(
            address.schema, now=GIVEN_NOW if self._given_clock else SERVERS_NOW
        )
        self._forget()
        _databases.add(self)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._homes: WeakKeyDictionary[asyncio.AbstractEventLoop, Home] = (
            WeakKeyDictionary()
        )
        self._listener: Listener | None = None
        self._apart_tasks: set[asyncio.Task[Any]] = set()
        self.is_open: bool = False
        self.identity: Row | None = None  # of the server and database, once open
        self.grace: Grace = Grace(self._clock)
        self.news: News = News(self._clock, self._sleepers_changed)
        self.hearing: Hearing = Hearing(self._note, self.news.tell)
        # How many claims have found work: who polls then begins anew.
        self.finds: int = 0
        self.bounds: Bounds = Bounds()
        self.suspect_bounds: Bounds = Bounds()
        self.claimer: Claimer = Claimer(
            self.bounds, self.suspect_bounds, self._clock.monotonic
        )

    @property
    def has_direct_url(self) -> bool:
        """Whether the environment says how to connect past a pooler."""
        return self._address.variable is not None

    @property
    def is_hearing(self) -> bool:
        """Whether news of other processes are heard now."""
        listener = self._listener
        return listener is not None and listener.is_hearing

    async def open(self) -> None:
        """Connect and check the schema; a second time does nothing."""
        if self.is_open:
            return
        home = await self._home()
        async with home.pool.session() as session:
            await migrate.check(session, self.schema, self.shown)
            (self.identity,) = await session.run("identity")
        self.is_open = True

    def statement(
        self, operation: str, values: dict[str, str | None]
    ) -> tuple[bytes, dict[str, str | None]]:
        """Give a statement and its parameters, to run on another's connection."""
        if self._given_clock is not None:
            values["now"] = self._given_clock.now().isoformat()
        return self.statements[operation], values

    # Running

    async def read(self, run: Callable[[Session], Awaitable[R]]) -> R:
        """Run something that only reads."""
        home = await self._home()
        loan = self._lend(home)
        return await to_its_end(self._read(loan, run), loan)

    async def write(
        self, run: Callable[[Session], Awaitable[R]], *, urgent: bool = False
    ) -> R:
        """Run something that writes; `urgent`: a worker's, not a handler's."""
        home = await self._home()
        loan = self._lend(home, urgent=urgent)
        return await to_its_end(self._write(loan, run), loan)

    async def announce(
        self, run: Callable[[Session], Awaitable[Announced[R]]], *, urgent: bool = False
    ) -> R:
        """Run something that may make jobs due, and tell of it."""
        home = await self._home()
        loan = self._lend(home, urgent=urgent)
        return await to_its_end(self._announce(home, loan, run), loan)

    async def _read(self, loan: Loan, run: Callable[[Session], Awaitable[R]]) -> R:
        async with loan as session:
            return await run(session)

    async def _write(self, loan: Loan, run: Callable[[Session], Awaitable[R]]) -> R:
        async with loan as session:
            answer = await run(session)
        self.grace.wrote()
        return answer

    async def _announce(
        self,
        home: Home,
        loan: Loan,
        run: Callable[[Session], Awaitable[Announced[R]]],
    ) -> R:
        async with loan as session:
            announced = await run(session)
            self.grace.wrote()
            if announced.arrivals:
                payload = home.teller.at_once(announced.arrivals)
                if payload is not None:
                    await send(session, payload)
                # Last: the caller is told before a worker of this loop has it.
                self.hear(announced.arrivals)
        return announced.answer

    def _lend(self, home: Home, *, urgent: bool = False) -> Loan:
        """Lend a session; from now on a close waits for its end."""
        if not self.is_open:
            raise closed(self.shown)
        return home.pool.session(urgent=urgent)

    async def tell_everything(self) -> None:
        """Tell that anything may have become due."""
        self.hear(None)
        await self.write(partial(send, payload=notify.EVERYTHING))

    def hear(self, arrivals: Sequence[Arrival] | None) -> None:
        """Hear of news of this process; None is that anything may have come."""
        self._note(arrivals)
        self.news.tell()

    def _note(self, arrivals: Sequence[Arrival] | None) -> bool:
        """Take news into account; whether they concern who looks here."""
        if arrivals is None:
            self.bounds.doubt()
            self.suspect_bounds.doubt()
            return True
        suspects = [arrival for arrival in arrivals if arrival.is_suspect]
        concerns = self.bounds.heard(a for a in arrivals if not a.is_suspect)
        if suspects:
            concerns |= self.suspect_bounds.heard(suspects)
        return concerns

    def looked(self, *, found: bool) -> None:
        """Note what a claim came to."""
        self.finds += found
        self.hearing.looked(found=found)

    # Connections

    async def connect(self) -> Session:
        """Open a connection of our own."""
        try:
            return await sessions.connect(
                self._address.parameters, self.statements, self._given_clock, self.shown
            )
        except ConfigError as error:
            if not self.is_open:
                raise
            # It led here before: what the server refuses now, while somebody changes
            # a password or restores the database, may pass, and a worker goes on.
            raise StoreUnavailable(str(error)) from error

    async def connect_directly(self) -> Session:
        """Open a connection past a pooler, or else where the URL leads."""
        session = await self.connect()
        if not self.has_direct_url:
            return session
        try:
            past = await self.connect_past(session)
        except StoreUnavailable as error:
            _log.warning("%s What is done once is done where the URL leads.", error)
            return session
        except BaseException:
            session.drop()
            raise
        await session.close()
        return past

    async def connect_past(self, session: Session) -> Session:
        """Open another connection by the direct URL, to the same database."""
        here = (self._address, self.statements, self._given_clock)
        (identity,) = await session.run("identity")
        return await direct.connect(*here, identity)

    async def apart(self, run: Callable[[Session], Awaitable[R]]) -> R | None:
        """
        Run what may take its time on a connection of its own, past a pooler.

        It goes on where its caller is cancelled, until the close. None where it can't
        be: it is for what is tried again in any case.
        """
        here = (self._address, self.statements, self._given_clock, self.identity)
        task = asyncio.get_running_loop().create_task(direct.run(*here, run))
        self._apart_tasks.add(task)
        task.add_done_callback(self._apart_tasks.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Finish what was handed over, then close every connection."""
        with self._lock:
            homes = dict(self._homes)
            self._homes.clear()
            self.is_open = False
            listener, self._listener = self._listener, None
        # Nothing wakes them now: a worker of this app looks up, and opens it again.
        self.news.tell()
        if listener is not None:
            listener.stop()
            await asyncio.to_thread(listener.join, _CLOSING)
        here = asyncio.get_running_loop()
        if apart := [task for task in self._apart_tasks if task.get_loop() is here]:
            for task in apart:
                task.cancel()
            # psycopg asks the server to stop, which may be frozen.
            await asyncio.wait(apart, timeout=_CLOSING)
        for loop, home in homes.items():
            if loop is here:
                await close(home)
            else:
                is_closed = close_there(home, loop)
                until = time.monotonic() + _CLOSING
                # That loop may end before it could set an event of ours.
                while not is_closed() and time.monotonic() < until:  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK)
                home.pool.drop()

    def abandon(self) -> None:
        """Let go of the connections as `close` does, where nobody can call that."""
        if (listener := self._listener) is not None:
            listener.stop()
        for loop, home in tuple(self._homes.items()):
            if loop.is_running():
                close_there(home, loop)
            else:
                home.pool.drop()

    def listen(self) -> None:
        """See that somebody listens."""
        listener = self._listener
        if listener is not None and listener.is_live:
            return
        with self._lock:
            if self.is_open and (self._listener is None or not self._listener.is_live):
                at, statements = self._address, self.statements
                connect = partial(direct.listen, at, statements, self.identity)
                asking = statements["listening"], self.hearing
                try:
                    self._listener = Listener(connect, *asking, at.variable)
                except RuntimeError as error:
                    # No thread is to be had. Whoever sleeps looks up all the same, and
                    # this is tried again.
                    _log.warning("Nobody listens for news of jobs: %s.", error)

    def look_again(self, seconds: float) -> None:
        """Wake who sleeps after a while, as if there were news; from a loop."""
        loop = asyncio.get_running_loop()
        home = self._homes.get(loop)
        if home is None:
            return
        if home.alarm is not None:
            if (
                home.alarm.when() <= loop.time() + seconds
                and not home.alarm.cancelled()
            ):
                return
            home.alarm.cancel()

        def wake() -> None:
            home.alarm = None
            self.news.tell()

        home.alarm = loop.call_later(seconds, wake)

    async def _home(self) -> Home:
        loop = asyncio.get_running_loop()
        home = self._homes.get(loop)
        if home is None:
            pool = Pool(self.connect, self.shown)
            home = Home(pool, Teller(partial(self._send_apart, pool)))
            await pool.start(partial(end, home))
            with self._lock:
                self._homes[loop] = home
        return home

    async def _send_apart(self, pool: Pool, payload: str) -> None:
        with contextlib.suppress(StoreError):
            async with pool.session() as session:
                await send(session, payload)

    def _sleepers_changed(self) -> None:
        """Listen no longer than anybody sleeps."""
        if not self.news.is_wanted:
            with self._lock:
                listener, self._listener = self._listener, None
            if listener is not None:
                listener.stop()

    def at_exit(self) -> None:
        """Tell what is still to be told, and close what the program left open."""
        if (listener := self._listener) is not None:
            listener.stop()
            listener.join(_EXITING)
        for loop, home in tuple(self._homes.items()):
            is_closed = close_there(home, loop)
            until = time.monotonic() + _EXITING
            while not is_closed() and time.monotonic() < until:
                time.sleep(_LOOK)
            home.pool.drop()

    def after_fork(self) -> None:
        """Begin anew in a forked child, without a touch on its parent's connections."""
        _parents.append((*self._homes.values(), self._listener))
        self._forget()


_databases: WeakSet[Database] = WeakSet()
# What a forked child has of its parent's: kept, so that it is never closed.
_parents: list[object] = []


def _after_fork() -> None:
    for database in tuple(_databases):
        database.after_fork()


def _at_exit() -> None:
    for database in tuple(_databases):
        database.at_exit()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
