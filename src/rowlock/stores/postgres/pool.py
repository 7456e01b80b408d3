"""
The connections of one event loop.

Our own, and not psycopg's pool: that one keeps tasks running in its loop, and must be
closed by whoever opened it, where this closes with the loop, however that ends. And a
worker's claim or outcome goes before what its handlers ask for.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from rowlock._errors import StoreError, StoreUnavailable
from rowlock.stores.postgres import errors
from rowlock.stores.postgres.sessions import Session

R = TypeVar("R")

LARGEST = 10
LAST_TURN = 1.0  # seconds, for those whose connection was cut to see it
PATIENCE = 10.0  # seconds, for what was handed over before a close


class Pool:
    """At most `LARGEST` sessions, opened when needed; used from one loop."""

    def __init__(self, connect: Callable[[], Awaitable[Session]], shown: str) -> None:
        self._connect = connect
        self._shown = shown
        self._idle: list[Session] = []
        self._used: set[Session] = set()
        self._count = 0  # those being opened too
        self._callers = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_closing = False
        self._is_closed = False
        self._is_calm = asyncio.Event()
        self._keeper: AsyncGenerator[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self, on_end: Callable[[], Awaitable[None]]) -> None:
        """Have the loop close this pool when it ends, after `on_end`."""
        # asyncio.run and its kind close the generators that were begun on their loop.
        self._loop = asyncio.get_running_loop()
        self._keeper = self._keep(on_end)
        await anext(self._keeper)

    def session(self, *, urgent: bool = False) -> Loan:
        """
        Lend a session for one block, which has to follow: a close waits for its end.

        `urgent` goes before who waits already.
        """
        if self._is_closing:
            raise closed(self._shown)
        self._callers += 1
        return Loan(self, urgent=urgent)

    async def enter(self, *, urgent: bool) -> Session:
        """Begin a loan."""
        try:
            return await self._take(urgent=urgent)
        except BaseException:
            self._leave()
            raise

    def forgo(self) -> None:
        """End a loan that never began."""
        self._leave()

    def leave(self, session: Session) -> None:
        """End a loan."""
        self._give_back(session)
        self._leave()

    async def close(self) -> None:
        """Wait until what was handed over is done, then close every connection."""
        self._is_closing = True
        if self._callers:
            self._is_calm.clear()
            # Whoever waits for longer waits for a server that doesn't answer.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_calm.wait(), PATIENCE)
        if self._keeper is not None:
            await self._keeper.aclose()

    def drop(self) -> None:
        """Close every connection at once, from anywhere."""
        self._is_closing = self._is_closed = True
        for session in self._idle:
            session.drop()
        self._idle.clear()
        is_running = self._loop is not None and self._loop.is_running()
        for session in tuple(self._used):
            if is_running:
                session.cut()
            else:
                session.drop()

    async def _keep(
        self, on_end: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await on_end()
            self._is_closing = self._is_closed = True
            idle, self._idle = self._idle, []
            for session in idle:
                await session.close()
            for session in tuple(self._used):
                session.cut()
            until = time.monotonic() + LAST_TURN
            # Whose call ends now drops it; nobody is told of the last one.
            while self._used and time.monotonic() < until:  # noqa: ASYNC110 - in the turns left
                await asyncio.sleep(0)

    def _leave(self) -> None:
        self._callers -= 1
        if not self._callers:
            self._is_calm.set()

    async def _take(self, *, urgent: bool) -> Session:
        while True:
            while self._idle:
                session = self._idle.pop()
                if session.is_live:
                    self._used.add(session)
                    return session
                self._count -= 1
                session.drop()
            if self._count < LARGEST:
                return await self._open()
            await self._wait(urgent=urgent)

    async def _open(self) -> Session:
        self._count += 1
        try:
            self._refuse_closed()
            session = await self._connect()
            try:
                # A server may have held it up beyond the close.
                self._refuse_closed()
            except StoreUnavailable:
                session.drop()
                raise
        except BaseException:
            self._count -= 1
            self._wake_next()
            raise
        self._used.add(session)
        return session

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise closed(self._shown)

    async def _wait(self, *, urgent: bool) -> None:
        turn = asyncio.get_running_loop().create_future()
        if urgent:
            self._waiting.appendleft(turn)
        else:
            self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._wake_next()  # the turn was ours, and is somebody else's now
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _give_back(self, session: Session) -> None:
        self._used.discard(session)
        # One that a server held up beyond the close comes back to nobody.
        if session.is_usable and not session.is_stale and not self._is_closed:
            self._idle.append(session)
        else:
            self._count -= 1
            session.drop()
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


async def to_its_end(call: Coroutine[object, object, R], loan: Loan) -> R:
    """
    Run a call, with its loan, that goes on where its caller is cancelled.

    psycopg would have the server cancel the statement, on a connection made for it:
    the caller would wait for that, and in an outage for a long time.
    """
    task = asyncio.get_running_loop().create_task(call)
    _running.add(task)
    task.add_done_callback(_has_ended)
    # Cancelled in the moment of its making, as by who cancels all tasks, it never
    # enters the loan, and a close would wait for its end.
    task.add_done_callback(lambda _: loan.forgo())
    return await asyncio.shield(task)


# A loop holds its tasks weakly.
_running: set[asyncio.Task[Any]] = set()


def _has_ended(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    # Seen, so that nobody is told of an error whose caller has gone.
    if not task.cancelled():
        task.exception()


class Loan:
    """
    A session out of a pool, for the length of a block.

    No generator: the last ones are lent while the loop ends those.
    """

    __slots__ = ("_is_entered", "_pool", "_session", "_urgent")

    def __init__(self, pool: Pool, *, urgent: bool) -> None:
        self._pool = pool
        self._urgent = urgent
        self._is_entered = False

    def forgo(self) -> None:
        """End a loan that never began."""
        if not self._is_entered:
            self._is_entered = True
            self._pool.forgo()

    async def __aenter__(self) -> Session:
        self._is_entered = True
        self._session = await self._pool.enter(urgent=self._urgent)
        self._session.has_written = False
        return self._session

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: object,
    ) -> None:
        has_written = self._session.has_written
        self._pool.leave(self._session)
        # A first transaction may be through when a second one fails: law 15.
        if has_written and isinstance(error, StoreError):
            raise errors.partly(error) from error


def closed(shown: str) -> StoreUnavailable:
    """Say that a store is used after its close."""
    return StoreUnavailable(f"The store {shown} is closed: open it first.")
