"""
One thread with one connection, and the work handed to it.

Whatever waits when the thread is free goes into one `BEGIN IMMEDIATE` ... `COMMIT`
(group commit: one flush of the disk for all). Each piece has its own savepoint, so
that one that raises changes nothing and the others stand. Futures are resolved after
the commit only.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sqlite3
import threading
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from rowlock._errors import AGAIN, RowlockError, StoreUnavailable
from rowlock.stores.sqlite import connection as connections
from rowlock.stores.sqlite import errors, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rowlock._clock import Clock

R = TypeVar("R")

# What is handed over: a function of the connection and the store's now.
Run: TypeAlias = "Callable[[sqlite3.Connection, int], R]"

_BATCH = 256  # bounds how long the first of a batch waits for the last
_EXIT_PATIENCE = 5.0


class Pending:
    """What a peek answers where the work must be done after all."""


PENDING = Pending()


class Work(Generic[R]):
    """
    One piece of work and who waits for it.

    `peek` runs outside a transaction of writing; what it answers is the answer, unless
    it is `PENDING`. `run` runs inside one. Without either it is answered when all that
    was handed over before it is done. `news` says that it may make jobs pending.
    """

    __slots__ = ("future", "news", "peek", "run")

    def __init__(
        self,
        run: Run[R] | None,
        *,
        peek: Run[R | Pending] | None = None,
        news: bool = False,
    ) -> None:
        self.run: Run[R] | None = run
        self.peek: Run[R | Pending] | None = peek
        self.news: bool = news
        self.future: Future[R] = Future()


class Between(Protocol):
    """What a thread does besides its work, between two transactions and about one."""

    def writing(
        self, connection: sqlite3.Connection
    ) -> contextlib.AbstractContextManager[None]:
        """
        Begin a transaction of writing; the block is its length.

        Raises:
            sqlite3.Error: somebody else holds the lock.
        """
        ...

    def committed(self, *, news: bool) -> None:
        """Note a commit, before whoever waits for it hears of it."""
        ...

    def due_in(self) -> float | None:
        """Tell in how many seconds to look around; None is never."""
        ...

    def look(self, connection: sqlite3.Connection) -> None:
        """Look around."""
        ...

    def close(self) -> None:
        """Let go of everything; there is no next look."""
        ...


class Thread:
    """A thread that owns a connection; started by `start`, ended by `stop`."""

    def __init__(
        self,
        name: str,
        path: str,
        connect: Callable[[], sqlite3.Connection],
        clock: Clock,
        between: Between | None = None,
    ) -> None:
        self._path = path
        self._connect = connect
        self._clock = clock
        self._between = between
        self._inbox: SimpleQueue[Work[Any] | None] = SimpleQueue()
        # Nothing may follow the None that ends it. A finalizer that ends it may have
        # interrupted whoever holds this.
        self._gate = threading.RLock()
        self._is_ended = False
        self._batch: list[Work[Any]] = []
        self._file: tuple[int, int] | None = None
        self.connected: Future[None] = _uncancellable()
        self.ended: Future[None] = _uncancellable()
        # A daemon, so that a program that forgets to close still ends; what it had
        # handed over by then is waited for at exit.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_live(self) -> bool:
        """Whether it takes work."""
        return not self._is_ended

    def start(self) -> None:
        """Connect; `connected` tells when, or why not."""
        try:
            self._thread.start()
        except RuntimeError as error:
            msg = (
                f"The database {self._path} can't be used, there is no thread to be"
                f" had: {AGAIN}. ({error})"
            )
            raise StoreUnavailable(msg) from error
        _threads.add(self)

    def submit(self, work: Work[R]) -> Future[R]:
        """Hand work over, from any thread."""
        with self._gate:
            if self._is_ended:
                raise closed(self._path)
            self._inbox.put(work)
        return work.future

    def nudge(self) -> None:
        """Have it ask anew when to look around."""
        with contextlib.suppress(StoreUnavailable):
            self.submit(Work(None))

    def stop(self) -> Future[None]:
        """End it after what was handed over; the future resolves when it is gone."""
        with self._gate:
            if not self._is_ended:
                self._is_ended = True
                self._inbox.put(None)
        return self.ended

    def _run(self) -> None:
        try:
            self._live()
        except sqlite3.Error as error:
            self._die(self._translated(error))
        except BaseException as error:  # noqa: BLE001 - handed to who waits for it
            self._die(error)
        finally:
            self.ended.set_result(None)

    def _live(self) -> None:
        # Held by frames of this thread alone: a forked child has none of them, and
        # SQLite forbids it even to close what its parent has open.
        with contextlib.closing(self._connect()) as connection:
            self._file = connections.file_of(self._path)
            if self._between is not None:
                self._between.look(connection)
            self.connected.set_result(None)
            try:
                while self._take(connection):
                    self._serve(connection, self._batch)
                    # An idle thread would keep the jobs.
                    self._batch = []
            finally:
                if self._between is not None:
                    self._between.close()

    def _die(self, failure: BaseException) -> None:
        with self._gate:
            self._is_ended = True
        if not self.connected.done():
            self.connected.set_exception(failure)
        _fail([*self._batch, *self._drain()], failure)

    def _take(self, connection: sqlite3.Connection) -> bool:
        """Wait for work, and look around meanwhile; False at the end."""
        while True:
            due_in = None if self._between is None else self._between.due_in()
            if self._between is not None and due_in is not None and due_in <= 0:
                self._between.look(connection)
                continue
            try:
                first = self._inbox.get(timeout=due_in)
            except Empty:
                continue
            if first is None:
                return False
            self._batch = [first]
            with contextlib.suppress(Empty):
                while len(self._batch) < _BATCH:
                    work = self._inbox.get_nowait()
                    if work is None:
                        self._inbox.put(None)  # nothing follows it, so it comes next
                        break
                    self._batch.append(work)
            return True

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

    def _serve(
        self, connection: sqlite3.Connection, batch: Sequence[Work[Any]]
    ) -> None:
        # Running, they can't be cancelled: nobody takes a future from whoever sets it.
        alive = [w for w in batch if w.future.set_running_or_notify_cancel()]
        if connections.file_of(self._path) != self._file:
            # What is written would be gone with the old file. This thread ends, and
            # the next that is needed opens the new one.
            msg = (
                f"The database {self._path} was deleted or replaced while it was open:"
                " nothing was written. Try again, and it is opened anew."
            )
            raise StoreUnavailable(msg)
        writes = [work for work in alive if not self._is_answered(connection, work)]
        if all(work.run is None for work in writes):
            _resolve((work, None) for work in writes)
            return
        with contextlib.ExitStack() as writing:
            try:
                writing.enter_context(self._writing(connection))
            except sqlite3.Error as error:
                # Whoever came meanwhile would wait a second more for the same lock.
                _fail([*writes, *self._drain()], self._translated(error))
                return
            self._write(connection, writes)

    def _writing(
        self, connection: sqlite3.Connection
    ) -> contextlib.AbstractContextManager[None]:
        if self._between is not None:
            return self._between.writing(connection)
        connections.begin(connection)
        return contextlib.nullcontext()

    def _is_answered(self, connection: sqlite3.Connection, work: Work[Any]) -> bool:
        """Answer without a transaction of writing where that will do."""
        if work.peek is None:
            return False
        try:
            connection.execute("BEGIN")
            try:
                answer = work.peek(connection, self._now())
            finally:
                # An error of the disk has ended it already.
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except sqlite3.Error as error:
            if work.run is not None and errors.is_locked(error):
                return False
            work.future.set_exception(self._translated(error))
        except Exception as error:  # noqa: BLE001 - handed to who waits for it
            work.future.set_exception(error)
        else:
            if answer is PENDING:
                return False
            work.future.set_result(answer)
        return True

    def _write(
        self, connection: sqlite3.Connection, writes: Sequence[Work[Any]]
    ) -> None:
        answers: list[tuple[Work[Any], Any]] = []
        for work in writes:
            failure, answer = self._attempt(connection, work, alone=len(writes) == 1)
            if failure is None:
                answers.append((work, answer))
            elif connection.in_transaction:
                _fail([work], failure)
            else:
                # All is rolled back: it was alone, or SQLite itself gave up.
                _fail(writes, failure)
                return
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            failure = errors.translate_commit(error, self._path)
            failure.__cause__ = error
            _fail((work for work, _ in answers), failure)
            return
        if answers and self._between is not None:
            self._between.committed(news=any(work.news for work, _ in answers))
        _resolve(answers)

    def _attempt(
        self, connection: sqlite3.Connection, work: Work[Any], *, alone: bool
    ) -> tuple[BaseException | None, Any]:
        """Run one piece within its own savepoint; alone, the transaction is it."""
        failure: BaseException
        try:
            if not alone:
                connection.execute("SAVEPOINT work")
            answer = work.run and work.run(connection, self._now())
            if not alone:
                connection.execute("RELEASE work")
        except sqlite3.Error as error:
            failure = self._translated(error)
        except Exception as error:  # noqa: BLE001 - handed to who waits for it
            failure = error
        else:
            return None, answer
        if connection.in_transaction:
            if alone:
                connection.execute("ROLLBACK")
            else:
                connection.execute("ROLLBACK TO work")
                connection.execute("RELEASE work")
        return failure, None

    def _now(self) -> int:
        return rows.to_micros(self._clock.now())

    def _translated(self, error: sqlite3.Error) -> RowlockError:
        translated = errors.translate(error, self._path)
        translated.__cause__ = error
        return translated


def closed(path: str) -> StoreUnavailable:
    """Say that a store isn't open, or not any more."""
    return StoreUnavailable(f"The store {path} is closed: open it first.")


def _resolve(answers: Iterable[tuple[Work[Any], Any]]) -> None:
    for work, answer in answers:
        work.future.set_result(answer)


def _fail(works: Iterable[Work[Any]], error: BaseException) -> None:
    """Tell those who still wait for an answer."""
    for work in works:
        with contextlib.suppress(InvalidStateError):
            work.future.set_exception(error)


def _uncancellable() -> Future[None]:
    # Several wait for one future, and the first that is cancelled must not take it
    # from the others.
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future


_threads: WeakSet[Thread] = WeakSet()

if hasattr(os, "register_at_fork"):
    # A child has none of its parent's threads to wait for.
    os.register_at_fork(after_in_child=_threads.clear)


@atexit.register
def _flush() -> None:
    """
    Wait for what was handed over and never awaited.

    The threads run on: a program's own exit hook may still enqueue, and since Python
    3.12 it can't start another thread.
    """
    for thread in tuple(_threads):
        with contextlib.suppress(StoreUnavailable, FutureTimeout):
            thread.submit(Work(None)).result(_EXIT_PATIENCE)
