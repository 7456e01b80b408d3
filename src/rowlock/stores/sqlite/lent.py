"""
What is done on a connection that the caller lends, of any kind.

Each comes to a `sqlite3.Connection`: SQLAlchemy's and Django's have one inside, and
aiosqlite has one in a thread, in which the whole of a piece of work runs then. It
joins the caller's transaction, begins one where the connection would, and commits by
itself only where the connection is in autocommit. Where the store isn't open, it makes
the schema there, too, with the first jobs. How long it waits for a lock is the
connection's own setting (`sqlite3.connect(timeout=)`).
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rowlock._errors import ClaimLost, UsageError, WrongConnection
from rowlock.stores import guests, strangers
from rowlock.stores.sqlite import errors, migrate, rows
from rowlock.stores.sqlite.connection import MEMORY
from rowlock.stores.sqlite.enqueue import enqueue
from rowlock.stores.sqlite.finish import complete, settled
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rowlock._clock import Clock
    from rowlock._job import ClaimKey, NewJob, Outcome
    from rowlock._store import Fate
    from rowlock.stores.sqlite.database import Database

R = TypeVar("R")

# What is done in the caller's transaction: on a cursor there, at the store's now.
Work: TypeAlias = "Callable[[sqlite3.Cursor, int], R]"

_DRIVERS: Final = (guests.SQLITE, guests.AIOSQLITE)


class SQLiteLent:
    """A `Lent` for one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    @property
    def makes_schema(self) -> bool:
        """Always, in the caller's transaction."""
        return True

    def keeps_out(self, connection: object) -> bool:
        """Whether it is in a transaction before ours is open; see `Lent.keeps_out`."""
        if self._database.is_open:
            return False
        try:
            return guests.is_in_transaction(connection)
        except (sqlite3.ProgrammingError, ValueError):  # closed, as the enqueue says
            return False

    async def enqueue(
        self, jobs: Sequence[NewJob], connection: object
    ) -> Sequence[int | None]:
        """Insert jobs in the caller's transaction; see `Lent.enqueue`."""
        return await self.run(connection, partial(enqueue, jobs=jobs))

    def enqueue_sync(
        self, jobs: Sequence[NewJob], connection: object
    ) -> Sequence[int | None]:
        """Do the same on a synchronous connection, in this thread."""
        return self.run_sync(connection, partial(enqueue, jobs=jobs))

    async def once(self, key: str, connection: object) -> bool:
        """Take a key in the caller's transaction; see `Lent.once`."""
        return await self.run(connection, partial(_once, key=key), call="once")

    def once_sync(self, key: str, connection: object) -> bool:
        """Do the same on a synchronous connection, in this thread."""
        return self.run_sync(connection, partial(_once, key=key), call="once")

    async def hold(self, key: ClaimKey, connection: object) -> None:
        """Refuse: see `hold_sync`."""
        self.hold_sync(key, connection)

    def hold_sync(self, key: ClaimKey, connection: object) -> None:
        """Refuse: on SQLite it would keep everybody out, this worker too."""
        del key, connection
        msg = (
            "hold() is for Postgres: a transaction that writes to SQLite keeps all"
            " others out. Let complete() be the last statement before the commit."
        )
        raise UsageError(msg)

    async def complete(
        self, outcome: Outcome, connection: object, *, progress: str | None = None
    ) -> tuple[int | None, ...]:
        """Write a success in the caller's transaction; see `Lent.complete`."""
        work = partial(complete, outcome=outcome, progress=progress)
        return await self.run(connection, work, call="complete")

    def complete_sync(
        self, outcome: Outcome, connection: object, *, progress: str | None = None
    ) -> tuple[int | None, ...]:
        """Do the same on a synchronous connection, in this thread."""
        work = partial(complete, outcome=outcome, progress=progress)
        return self.run_sync(connection, work, call="complete")

    async def settled(self, keys: Sequence[ClaimKey]) -> tuple[Fate, ...]:
        """Tell what became of claims; see `Lent.settled`."""
        return await self._database.write(partial(settled, keys=keys))

    async def run(
        self,
        connection: object,
        work: Work[R],
        *,
        call: str = "enqueue",
    ) -> R:
        """
        Do a piece of work on an async connection of any kind, all of it or nothing.

        `call` is what the user has called: all but an enqueue has to join what else is
        written in the transaction.

        Raises:
            WrongConnection: of no kind that works here, closed, or to another database;
                nothing was written.
            StoreUnavailable: another connection has the lock; nothing was written.
        """
        guests.check(connection, _DRIVERS, call=call, is_awaited=True)
        driver = await guests.unwrap_awaited(connection)
        if not guests.AIOSQLITE.has(driver):
            raise _wrong_kind(connection, driver, call)
        try:
            return await _in_its_thread(driver, lambda it: self._do(it, work, call))
        except ClaimLost:
            await guests.has_ended_awaited(connection)
            raise

    def run_sync(
        self,
        connection: object,
        work: Work[R],
        *,
        call: str = "enqueue",
    ) -> R:
        """Do it on a synchronous connection of any kind, in this thread; as `run`."""
        guests.check(connection, _DRIVERS, call=call, is_awaited=False)
        driver = guests.unwrap(connection)
        if not isinstance(driver, sqlite3.Connection):
            raise _wrong_kind(connection, driver, call)
        try:
            return self._do(driver, work, call)
        except ClaimLost as error:
            guests.has_ended(connection, error)
            raise

    def _do(self, connection: sqlite3.Connection, work: Work[R], call: str) -> R:
        # A cursor of our own kind: the caller may have set another, or a row factory.
        cursor = self._check(connection)
        again = guests.again(joins=connection.in_transaction)
        try:
            _check_transaction(connection, call)
            with _in_transaction(connection, cursor, self._database.path):
                now = rows.to_micros(self._clock.now())
                if not self._database.is_open:
                    self._migrate(connection, cursor, now)
                with _texts(connection):
                    answer = work(cursor, now)
        except ClaimLost:
            _undo(connection, cursor)
            raise
        except sqlite3.Error as error:
            if errors.is_read_only(error):
                why = "by mode=ro, PRAGMA query_only or its file's permissions"
                raise guests.reads_only(why, error) from error
            raise errors.translate(error, self._database.path, again=again) from error
        finally:
            cursor.close()
        # Where the commit is still to come, it is looked for more often for a while.
        self._database.lent()
        return answer

    def _migrate(
        self, connection: sqlite3.Connection, cursor: sqlite3.Cursor, now: int
    ) -> None:
        """Make the schema in the caller's transaction, where it isn't there."""
        # Our connection would wait for the caller's lock, and the caller waits for us.
        with _texts(connection):
            migrate.join(cursor, now, path=self._database.path)

    def _check(self, connection: sqlite3.Connection) -> sqlite3.Cursor:
        """Refuse a connection that is closed, of another thread or another database."""
        path = self._database.path
        if path == MEMORY:
            msg = (
                "The store is in memory, where no other connection can reach it: lend"
                " one to a store in a file."
            )
            raise WrongConnection(msg)
        try:
            cursor = sqlite3.Cursor(connection)
            main = next(
                file
                for _, name, file in cursor.execute(SQL["attached"]).fetchall()
                if _text(name) == "main"
            )
        except sqlite3.ProgrammingError as error:
            raise _unusable(connection, error) from error
        except sqlite3.Error as error:
            raise errors.translate(error, path) from error
        if not main or not _is_same(_text(main), path):
            found = _text(main) if main else "a database in memory"
            msg = (
                f"The connection lent is to {found}, and the jobs are in {path}: lend"
                " one to that."
            )
            raise WrongConnection(msg)
        return cursor


def _unusable(
    connection: sqlite3.Connection, error: sqlite3.ProgrammingError
) -> WrongConnection:
    try:
        _ = connection.total_changes  # the thread is no matter to that
    except sqlite3.ProgrammingError:
        return guests.closed()
    return WrongConnection(
        "The connection lent can't be used in this thread: call in the one that has"
        " made it, or make it here, or with sqlite3.connect(check_same_thread=False)."
        f" ({error})"
    )


def _check_transaction(connection: sqlite3.Connection, call: str) -> None:
    is_alone = not connection.in_transaction and _is_autocommit(connection)
    if is_alone and call != "enqueue":
        raise guests.alone(call)


def _once(cursor: sqlite3.Cursor, now: int, *, key: str) -> bool:
    taken = cursor.execute(SQL["once"], {"key": key, "now": now}).fetchone()
    return taken is not None


async def _in_its_thread(
    driver: Any,  # noqa: ANN401 - an aiosqlite.Connection, and it isn't imported
    act: Callable[[sqlite3.Connection], R],
) -> R:
    """
    Act on the connection inside of an aiosqlite one.

    In one turn of its thread, or what another coroutine runs there would come between
    a savepoint and its release.
    """
    try:
        connection = driver._conn  # noqa: SLF001 - there is no other way in
    except ValueError as error:
        raise guests.closed() from error

    # As a closure, since aiosqlite logs what it runs, and payloads aren't logged.
    def run() -> R:
        return act(connection)

    answer: R = await driver._execute(run)  # noqa: SLF001 - as above
    return answer


@contextmanager
def _texts(connection: sqlite3.Connection) -> Iterator[None]:
    """Have texts read as such, whatever the caller has them read as."""
    caller_s = connection.text_factory
    connection.text_factory = str
    try:
        yield
    finally:
        connection.text_factory = caller_s


def _undo(connection: sqlite3.Connection, cursor: sqlite3.Cursor) -> None:
    """Roll the caller's transaction back, so that nothing of it can be committed."""
    if _is_autocommit(connection):
        if connection.in_transaction:
            cursor.execute("ROLLBACK")
    else:
        connection.rollback()


@contextmanager
def _in_transaction(
    connection: sqlite3.Connection, cursor: sqlite3.Cursor, path: str
) -> Iterator[None]:
    """All or none, whoever commits: a savepoint, or where none would, a transaction."""
    joins = connection.in_transaction
    commits = not joins and _is_autocommit(connection)
    if not joins:
        cursor.execute("BEGIN IMMEDIATE")
    cursor.execute("SAVEPOINT rowlock")
    try:
        yield
    except BaseException:
        # A full disk has rolled everything back already.
        if connection.in_transaction:
            cursor.execute("ROLLBACK TO rowlock")
            cursor.execute("RELEASE rowlock")
            if not joins:
                cursor.execute("ROLLBACK")
        raise
    cursor.execute("RELEASE rowlock")
    if commits:
        _commit(connection, cursor, path)


def _commit(connection: sqlite3.Connection, cursor: sqlite3.Cursor, path: str) -> None:
    try:
        cursor.execute("COMMIT")
    except sqlite3.Error as error:
        # The caller has begun none, and must not find one open.
        if connection.in_transaction:
            cursor.execute("ROLLBACK")
        raise errors.translate_commit(error, path) from error


def _is_autocommit(connection: sqlite3.Connection) -> bool:
    # Python 3.12 has the attribute; -1 is its word for how it was before.
    autocommit = getattr(connection, "autocommit", -1)
    return connection.isolation_level is None if autocommit == -1 else bool(autocommit)


def _wrong_kind(connection: object, driver: object, call: str) -> WrongConnection:
    name = guests.named(connection)
    if driver is not connection:
        return WrongConnection(
            f"The {name} lent is one on {guests.named(driver)}, and the store is an"
            " SQLite file: lend one on that."
        )
    if told := strangers.refusal(connection, call):
        return told
    one = guests.one(connection)
    return WrongConnection(
        f"{one} can't be lent to the SQLite store: {call} takes an"
        " aiosqlite.Connection, and SQLAlchemy's AsyncConnection and AsyncSession on"
        f" it; {call}_sync takes a sqlite3.Connection, and SQLAlchemy's Connection and"
        " Session and Django's connection on it."
    )


def _text(value: str | bytes) -> str:
    # The caller's text_factory may give bytes.
    return os.fsdecode(value)


def _is_same(file: str, path: str) -> bool:
    one, other = Path(file).resolve(), Path(path).resolve()
    try:
        # By another hard link it would have a write-ahead log of its own, and be torn.
        is_one = one.name == other.name and one.parent.samefile(other.parent)
        return one.samefile(other) and (is_one or one.stat().st_nlink == 1)
    except OSError:
        return one == other
