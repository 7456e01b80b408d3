"""
One thread with one connection, and the work handed to it.

Whatever waits when the thread is free goes into one `BEGIN IMMEDIATE` ... `COMMIT`
(group commit: one flush of the disk for all). Each piece has its own savepoint, so
that one that raises changes nothing and the others stand. Futures are resolved after
the commit only.

A lock that another process holds is waited for here, not in SQLite's busy handler:
that one sleeps up to 100 ms between tries, and isn't called where a deferred
transaction would have to be upgraded.
"""

from __future__ import annotations

import atexit
import contextlib
import random
import sqlite3
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from rowlock._errors import RowlockError, StoreUnavailable
from rowlock.stores.sqlite import errors, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowlock._clock import Clock

R = TypeVar("R")

# What is handed over: a function of the connection and the store's now.
Task: TypeAlias = "Callable[[sqlite3.Connection, int], R]"

PATIENCE = 1.0  # law 18
_BATCH = 256  # bounds how long the first of a batch waits for the last
_EXIT_PATIENCE = 5.0


class Pending:
    """What a peek answers where the work must be done after all."""


PENDING = Pending()


class Work(Generic[R]):
    """
    One piece of work and who waits for it.

    `peek` runs outside a transaction; what it answers is the answer, unless it is
    `PENDING`. `run` runs inside one. `news` says that it may make jobs pending.
    """

    __slots__ = ("future", "news", "peek", "run")

    def __init__(
        self,
        run: Task[R] | None,
        *,
        peek: Task[R | Pending] | None = None,
        news: bool = False,
    ) -> None:
        self.run = run
        self.peek = peek
        self.news = news
        self.future: Future[R] = Future()


class Rhythm(Protocol):
    """What a thread does besides its work, on its own connection."""

    def committed(self, connection: sqlite3.Connection, *, news: bool) -> None:
        """Follow a commit; whoever waited for it has been answered."""
        ...

    def due_in(self) -> float | None:
        """Tell in how many seconds to look around; None is never."""
        ...

    def look(self, connection: sqlite3.Connection) -> None:
        """Look around, between two transactions."""
        ...


class Thread:
    """A thread that owns a connection; started by `start`, ended by `stop`."""

    def __init__(
        self,
        name: str,
        path: str,
        connect: Callable[[], sqlite3.Connection],
        clock: Clock,
        rhythm: Rhythm | None = None,
    ) -> None:
        self._path = path
        self._connect = connect
        self._clock = clock
        self._rhythm = rhythm
        self._inbox: SimpleQueue[Work[Any] | None] = SimpleQueue()
        self._gate = threading.Lock()  # nothing may follow the None that ends it
        self._is_ended = False
        self.connected: Future[None] = _uncancellable()
        self.ended: Future[None] = _uncancellable()
        # A daemon, so that a program that forgets to close still ends; what was
        # handed over by then is waited for at exit.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Connect; `connected` tells when, or why not."""
        _live.add(self)
        self._thread.start()

    def submit(self, work: Work[R]) -> Future[R]:
        """Hand work over, from any thread."""
        with self._gate:
            if self._is_ended:
                raise StoreUnavailable(_closed(self._path))
            self._inbox.put(work)
        return work.future

    def nudge(self) -> None:
        """Have it ask its rhythm anew for how long to wait."""
        with self._gate:
            if not self._is_ended:
                self._inbox.put(Work(None))

    def stop(self) -> Future[None]:
        """End it after what was handed over; the future resolves when it is gone."""
        with self._gate:
            if not self._is_ended:
                self._is_ended = True
                self._inbox.put(None)
        return self.ended

    def _run(self) -> None:
        try:
            connection = self._connect()
        except BaseException as error:  # noqa: BLE001 - handed to who waits for it
            self._end(error)
            return
        self.connected.set_result(None)
        try:
            with contextlib.closing(connection):
                while (batch := self._take(connection)) is not None:
                    self._serve(connection, batch)
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        with self._gate:
            self._is_ended = True
        if error is not None:
            if not self.connected.done():
                self.connected.set_exception(error)
            self._fail(self._drain(), StoreUnavailable(_closed(self._path)))
        self.ended.set_result(None)

    def _take(self, connection: sqlite3.Connection) -> list[Work[Any]] | None:
        """Wait for work; None is the end."""
        while True:
            timeout = None if self._rhythm is None else self._rhythm.due_in()
            if self._rhythm is not None and timeout is not None and timeout <= 0:
                self._rhythm.look(connection)
                continue
            try:
                first = self._inbox.get(timeout=timeout)
            except Empty:
                continue
            if first is None:
                return None
            batch = [first]
            while len(batch) < _BATCH:
                try:
                    work = self._inbox.get_nowait()
                except Empty:
                    break
                if work is None:
                    self._inbox.put(None)  # nothing follows it, so it is next
                    break
                batch.append(work)
            return batch

    def _serve(self, connection: sqlite3.Connection, batch: Sequence[Work[Any]]) -> None:
        writes = [
            work
            for work in batch
            if work.future.set_running_or_notify_cancel()
            and not self._is_answered(connection, work)
        ]
        if not writes:
            return
        try:
            self._begin(connection)
        except RowlockError as error:
            # Whoever came meanwhile would wait a second more for the same lock.
            self._fail([*writes, *self._drain()], error)
            return
        self._commit(connection, writes)

    def _is_answered(self, connection: sqlite3.Connection, work: Work[Any]) -> bool:
        """Answer without a transaction of writing where that will do."""
        if work.peek is None and work.run is None:
            work.future.set_result(None)
            return True
        if work.peek is None:
            return False
        try:
            connection.execute("BEGIN")
            try:
                answer = work.peek(connection, self._now())
            finally:
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            if work.run is not None and errors.is_locked(error):
                return False
            work.future.set_exception(_chained(errors.translate(error, self._path), error))
        except Exception as error:  # noqa: BLE001 - handed to who waits for it
            work.future.set_exception(error)
        else:
            if answer is PENDING:
                return False
            work.future.set_result(answer)
        return True

    def _begin(self, connection: sqlite3.Connection) -> None:
        give_up_at = time.monotonic() + PATIENCE
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                if not errors.is_locked(error) or time.monotonic() >= give_up_at:
                    raise errors.translate(error, self._path) from error
            else:
                return
            time.sleep(random.uniform(0.0005, 0.002))  # noqa: S311 - no secret

    def _commit(self, connection: sqlite3.Connection, writes: Sequence[Work[Any]]) -> None:
        answers: list[tuple[Work[Any], Any, BaseException | None]] = []
        for work in writes:
            answers.append(self._attempt(connection, work, alone=len(writes) == 1))
            if not connection.in_transaction:
                break
        news = any(work.news for work, _, error in answers if error is None)
        if not connection.in_transaction:
            # SQLite itself rolled everything back: a full disk, an error of it.
            failed = answers[-1][2] or StoreUnavailable(_closed(self._path))
            self._fail(writes, failed)
            return
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            self._fail(
                writes, _chained(errors.translate_commit(error, self._path), error)
            )
            return
        for work, answer, failure in answers:
            if failure is None:
                work.future.set_result(answer)
            else:
                work.future.set_exception(failure)
        if self._rhythm is not None:
            self._rhythm.committed(connection, news=news)

    def _attempt(
        self, connection: sqlite3.Connection, work: Work[Any], *, alone: bool
    ) -> tuple[Work[Any], Any, BaseException | None]:
        """Run one piece within its own savepoint; alone, the transaction is it."""
        run = work.run
        if run is None:
            return work, None, None
        try:
            if not alone:
                connection.execute("SAVEPOINT work")
            answer = run(connection, self._now())
            if not alone:
                connection.execute("RELEASE work")
        except sqlite3.Error as error:
            failure: BaseException = _chained(errors.translate(error, self._path), error)
        except Exception as error:  # noqa: BLE001 - handed to who waits for it
            failure = error
        else:
            return work, answer, None
        if connection.in_transaction:
            if alone:
                connection.execute("ROLLBACK")
            else:
                connection.execute("ROLLBACK TO work")
                connection.execute("RELEASE work")
        return work, None, failure

    def _drain(self) -> list[Work[Any]]:
        drained = []
        with contextlib.suppress(Empty):
            while True:
                work = self._inbox.get_nowait()
                if work is None:
                    self._inbox.put(None)
                    break
                if work.future.set_running_or_notify_cancel():
                    drained.append(work)
        return drained

    def _now(self) -> int:
        return rows.to_micros(self._clock.now())

    @staticmethod
    def _fail(works: Sequence[Work[Any]], error: BaseException) -> None:
        for work in works:
            work.future.set_exception(error)


def _uncancellable() -> Future[None]:
    # Several wait for one future, and the first that is cancelled must not take it
    # from the others.
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future


def _chained(error: RowlockError, cause: BaseException) -> RowlockError:
    error.__cause__ = cause
    return error


def _closed(path: str) -> str:
    return f"The store {path} is closed: open it first."


_live: WeakSet[Thread] = WeakSet()


@atexit.register
def _flush() -> None:
    """
    Wait for what was handed over and never awaited.

    The threads run on: a program's own exit hook may still enqueue, and since Python
    3.12 it can't start another thread.
    """
    for thread in tuple(_live):
        with contextlib.suppress(StoreUnavailable, FutureTimeout):
            thread.submit(Work(None)).result(_EXIT_PATIENCE)
