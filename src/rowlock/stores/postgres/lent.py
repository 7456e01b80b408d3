"""
What is done on a connection that the caller lends, of any kind.

It joins the caller's transaction, begins one where the connection would, and commits by
itself only where the connection is in autocommit. A piece of work is written once, as
`Steps`, for whoever awaits and whoever doesn't.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

from rowlock._errors import StoreError, WrongConnection
from rowlock._job import ClaimKey, NewJob, Outcome
from rowlock._store import Fate
from rowlock.stores import guests as kinds
from rowlock.stores import strangers
from rowlock.stores.postgres import completing, guests, notify
from rowlock.stores.postgres import enqueue as enqueueing
from rowlock.stores.postgres.database import Database
from rowlock.stores.postgres.enqueue import NOTHING, Added
from rowlock.stores.postgres.errors import NoPartition
from rowlock.stores.postgres.guests import Guest, Steps, When, Work
from rowlock.stores.postgres.sessions import Session, writes

R = TypeVar("R")


class PostgresLent:
    """A `Lent` for one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._checked: WeakSet[object] = WeakSet()
        self._holders = completing.Holders()

    @property
    def makes_schema(self) -> bool:
        """Never: `rowlock migrate` does."""
        return False

    def keeps_out(self, connection: object) -> bool:
        """Never: nothing that opens waits for a user's lock; see `Lent.keeps_out`."""
        del connection
        return False

    async def enqueue(
        self, jobs: Sequence[NewJob], connection: object
    ) -> Sequence[int | None]:
        """Insert jobs in the caller's transaction; see `Lent.enqueue`."""
        return await self.run(connection, lambda guest: _enqueue(guest, jobs))

    def enqueue_sync(
        self, jobs: Sequence[NewJob], connection: object
    ) -> Sequence[int | None]:
        """Do the same on a synchronous connection, in this thread."""
        return self.run_sync(connection, lambda guest: _enqueue(guest, jobs))

    async def once(self, key: str, connection: object) -> bool:
        """Take a key in the caller's transaction; see `Lent.once`."""
        return await self.run(connection, partial(_once, key=key), call="once")

    def once_sync(self, key: str, connection: object) -> bool:
        """Do the same on a synchronous connection, in this thread."""
        return self.run_sync(connection, partial(_once, key=key), call="once")

    async def hold(self, key: ClaimKey, connection: object) -> None:
        """Take a claim's row in the caller's transaction; see `Lent.hold`."""
        await self.run(connection, self._holding(key), call="hold")

    def hold_sync(self, key: ClaimKey, connection: object) -> None:
        """Do the same on a synchronous connection, in this thread."""
        self.run_sync(connection, self._holding(key), call="hold")

    async def complete(
        self, outcome: Outcome, connection: object, *, progress: str | None = None
    ) -> tuple[int | None, ...]:
        """Write a success in the caller's transaction; see `Lent.complete`."""
        work = self._completing(outcome, progress)
        return await self.run(connection, work, call="complete")

    def complete_sync(
        self, outcome: Outcome, connection: object, *, progress: str | None = None
    ) -> tuple[int | None, ...]:
        """Do the same on a synchronous connection, in this thread."""
        work = self._completing(outcome, progress)
        return self.run_sync(connection, work, call="complete")

    async def settled(self, keys: Sequence[ClaimKey]) -> tuple[Fate, ...]:
        """Tell what became of claims; see `Lent.settled`."""
        # Before what handlers ask for: outcomes come after it. It locks rows.
        return await self._database.write(
            partial(completing.settled, keys=keys), urgent=True
        )

    async def run(
        self, connection: object, work: Work[R], *, call: str = "enqueue"
    ) -> R:
        """
        Do a piece of work on an async connection of any kind.

        `call` is what the user has called, for the refusal of a synchronous one.

        Raises:
            WrongConnection: of no kind that works here, closed, in a transaction that
                has failed, or to another database; nothing was written.
            StoreError: as for the store's own connections; besides, the driver's own
                error where the caller's transaction has met another's.
        """
        kinds.check(connection, guests.DRIVERS, call=call, is_awaited=True)
        driver = await kinds.unwrap_awaited(connection)
        guest = guests.of_awaited(driver)
        if guest is None:
            raise _wrong_kind(connection, driver, call)
        steps = self._on(guest, work)
        try:
            operation, values = next(steps)
            while True:
                statement, given = self._database.statement(operation, values)
                when = _when(guest, statement)
                try:
                    found = await guest.run(statement, given)
                except asyncio.CancelledError as error:
                    operation, values = steps.throw(error)
                except Exception as error:  # noqa: BLE001 - is raised in the work
                    told = self._told(guest, error, when)
                    if isinstance(told, NoPartition):
                        told = await self._mended(told)
                    operation, values = steps.throw(told)
                else:
                    operation, values = steps.send(found)
        except StopIteration as end:
            answer: R = end.value
            return answer

    def run_sync(
        self, connection: object, work: Work[R], *, call: str = "enqueue"
    ) -> R:
        """Do it on a synchronous connection of any kind, in this thread; as `run`."""
        kinds.check(connection, guests.DRIVERS, call=call, is_awaited=False)
        driver = kinds.unwrap(connection)
        guest = guests.of(driver)
        if guest is None:
            raise _wrong_kind(connection, driver, call)
        steps = self._on(guest, work)
        try:
            operation, values = next(steps)
            while True:
                statement, given = self._database.statement(operation, values)
                when = _when(guest, statement)
                try:
                    found = guest.run(statement, given)
                except Exception as error:  # noqa: BLE001 - is raised in the work
                    if not when.commits:
                        kinds.has_failed(connection, error)
                    told = self._told(guest, error, when)
                    if isinstance(told, NoPartition):
                        told = _on_a_loop(self._mended(told))
                    operation, values = steps.throw(told)
                else:
                    operation, values = steps.send(found)
        except StopIteration as end:
            answer: R = end.value
            return answer

    def _holding(self, key: ClaimKey) -> Work[None]:
        return partial(completing.hold, key=key, holders=self._holders)

    def _completing(
        self, outcome: Outcome, progress: str | None
    ) -> Work[completing.Ids]:
        return partial(
            completing.complete,
            outcome=outcome,
            progress=progress,
            holders=self._holders,
            enqueue=_enqueue,
        )

    def _told(self, guest: Guest, error: Exception, when: When) -> Exception:
        told = guest.translate(error, self._database.shown, when)
        if told is not error:
            told.__cause__ = error
        return told

    async def _mended(self, error: NoPartition) -> NoPartition:
        """Make the partition that was missing, beside the caller's transaction."""
        try:
            await self._database.write(partial(_run, operation="make_partitions"))
        except StoreError:
            return error
        told = NoPartition(
            f"The history of {self._database.shown} lacked the partition of a day,"
            " which is there now: roll back, and try again."
        )
        told.__cause__ = error.__cause__
        return told

    def _on(self, guest: Guest, work: Work[R]) -> Steps[R]:
        """Look at the connection first; once, whether it leads to this database."""
        guest.check()
        if guest.connection not in self._checked:
            found = yield "identity", {}
            if found != [self._database.identity]:
                msg = (
                    f"The connection lent is to {guest.shown}, and the jobs are in"
                    f" {self._database.shown}: lend one to that."
                )
                raise WrongConnection(msg)
            self._checked.add(guest.connection)
        return (yield from work(guest))


def _when(guest: Guest, statement: bytes) -> When:
    commits = guest.commits
    return When(joins=not commits, commits=commits and writes(statement))


async def _run(session: Session, operation: str) -> None:
    await session.run(operation)


def _on_a_loop(call: Coroutine[Any, Any, R]) -> R:
    # In a thread, since one may run in the caller's.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call).result()


def _enqueue(guest: Guest, jobs: Sequence[NewJob]) -> Steps[tuple[int | None, ...]]:
    """Add jobs, and tell of them: in the transaction, or in autocommit after it."""
    if not jobs:
        return ()
    commits = guest.commits
    # One statement is all or none in autocommit, too, and where a conflict is raised
    # in a transaction that goes on (law 1).
    is_one = commits or any(job.on_conflict == "raise" for job in jobs)
    order = range(len(jobs)) if is_one else enqueueing.in_order(jobs)
    ordered = [jobs[place] for place in order]
    parts = [ordered] if is_one else enqueueing.in_portions(ordered)
    found = NOTHING
    for part in parts:
        found = enqueueing.together(found, (yield from _add(part)))
    if found.arrivals:
        # What is written already is answered, though it can't be told.
        with suppress(StoreError) if commits else nullcontext():
            yield "notify", {"payload": notify.write(found.arrivals)}
    # Due once the caller commits, of which the notification tells us too.
    return enqueueing.as_given(found, order).answer


def _add(jobs: Sequence[NewJob]) -> Steps[Added]:
    for _ in range(enqueueing.TRIES):
        found = yield enqueueing.operation(jobs), enqueueing.values(jobs)
        added = enqueueing.added(jobs, found)
        if added is not None:
            return added
    raise enqueueing.holders_change()


def _once(guest: Guest, key: str) -> Steps[bool]:
    completing.check_transaction(guest, "once")
    found = yield "once", {"key": key}
    return bool(found)


def _wrong_kind(connection: object, driver: object, call: str) -> WrongConnection:
    name = kinds.named(connection)
    if driver is not connection:
        return WrongConnection(
            f"The {name} lent is one on {kinds.named(driver)}, to which the Postgres"
            " store doesn't speak: use psycopg under it, as in postgresql+psycopg://,"
            " or asyncpg where it is awaited."
        )
    if told := strangers.refusal(connection, call):
        return told
    one = kinds.one(connection)
    return WrongConnection(
        f"{one} can't be lent to the Postgres store: {call} takes a"
        " psycopg.AsyncConnection, asyncpg's Connection, and SQLAlchemy's"
        f" AsyncConnection and AsyncSession on either; {call}_sync takes a"
        " psycopg.Connection, one of psycopg2, and SQLAlchemy's Connection and Session"
        " and Django's connection on either."
    )
