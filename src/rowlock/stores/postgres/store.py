"""
The Postgres store: the whole of `Store` on PostgreSQL 15 and later.

Each method names what runs and whether it makes news; what runs is in the modules
beside this one. No method is bound to an event loop or a thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from weakref import finalize

from rowlock._clock import Clock, SystemClock
from rowlock._doctor import Doctor
from rowlock._filter import Filter
from rowlock._job import Claim, ClaimKey, Job, NewJob, Outcome
from rowlock._store import (
    Answer,
    Claimed,
    Demand,
    Matches,
    Migration,
    Page,
    Pause,
    Pruned,
    Renewal,
    Retention,
    Settled,
    Stats,
    TaskInfo,
    WorkerInfo,
)
from rowlock.stores.postgres import enqueue as enqueueing
from rowlock.stores.postgres import finish as finishing
from rowlock.stores.postgres import migrate, operate, read, upkeep
from rowlock.stores.postgres import retention as letting_go
from rowlock.stores.postgres.address import Address, read_url
from rowlock.stores.postgres.claim import Taker
from rowlock.stores.postgres.copying import PostgresCopying
from rowlock.stores.postgres.database import Database
from rowlock.stores.postgres.dead_letters import PostgresDeadLetters
from rowlock.stores.postgres.figures import PostgresFigures, stats
from rowlock.stores.postgres.lent import PostgresLent
from rowlock.stores.postgres.roles import Roles, doubt
from rowlock.stores.postgres.sessions import Session
from rowlock.stores.postgres.wake import PostgresWakeups

_NO_TIME = timedelta(0)


class PostgresStore:
    """A `Store` in a schema of a Postgres database."""

    def __init__(self, address: Address, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._database = Database(address, clock)
        self._lent = PostgresLent(self._database)
        self._dead_letters = PostgresDeadLetters(self._database)
        self._figures = PostgresFigures(self._database)
        self._copying = PostgresCopying(self._database)
        # A store that is dropped unclosed; `database.at_exit` is for those that aren't.
        finalize(self, self._database.abandon).atexit = False

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None) -> PostgresStore:
        """Read a URL; see `address.read_url`."""
        return cls(read_url(url), clock=clock)

    @property
    def url(self) -> str:
        """Where this store is, to show: without a password."""
        return self._database.shown

    @property
    def is_new(self) -> bool:
        """Whether `open` made this database: never, on Postgres."""
        return False

    @property
    def lent(self) -> PostgresLent:
        """The operations on a connection that the caller lends."""
        return self._lent

    @property
    def dead_letters(self) -> PostgresDeadLetters:
        """What is asked of dead letters as groups, and their automatic replay."""
        return self._dead_letters

    @property
    def figures(self) -> PostgresFigures:
        """What is counted for an operator who asks."""
        return self._figures

    @property
    def copying(self) -> PostgresCopying:
        """How everything in it is copied to another store."""
        return self._copying

    @property
    def doctor(self) -> Doctor:
        """Who examines this database."""
        from rowlock.stores.postgres import doctor  # noqa: PLC0415 - seldom needed

        return doctor.PostgresDoctor(self._database, self._clock)

    async def open(self) -> None:
        """Connect and check the schema; see `Store.open`."""
        await self._database.open()

    async def close(self) -> None:
        """Finish what was handed over, then let go of every connection."""
        await self._database.close()

    async def migrate(
        self,
        *,
        dry_run: bool = False,
        worker_role: str | None = None,
        producer_roles: Sequence[str] = (),
    ) -> Sequence[Migration]:
        """Apply what is pending and grant roles, under a lock; see `Store.migrate`."""
        schema = self._database.schema
        roles = Roles(worker=worker_role, producers=tuple(producer_roles))
        async with self._apart() as session:
            if dry_run:
                return await migrate.preview(session, schema, self.url)
            return await migrate.migrate(session, schema, self.url, roles=roles)

    async def doubt(self, worker_role: str) -> str | None:
        """Say why this role binds no worker, None where it does."""
        async with self._apart() as session:
            return await doubt(session, worker_role)

    async def script(
        self,
        *,
        since: int | None = None,
        worker_role: str | None = None,
        producer_roles: Sequence[str] = (),
    ) -> str:
        """
        Write what `migrate` would do, for psql; empty where it is nothing.

        `since` is the version to begin after, without a look at the database.
        """
        schema = self._database.schema
        roles = Roles(worker=worker_role, producers=tuple(producer_roles))
        if since is not None:
            return migrate.script_since(since, schema, roles)
        async with self._apart() as session:
            return await migrate.script(session, schema, self.url, roles)

    async def drop(self) -> None:
        """Drop the schema with everything in it, as a test does with its own."""
        async with self._apart() as session:
            await session.run("drop_schema")

    @asynccontextmanager
    async def _apart(self) -> AsyncIterator[Session]:
        """Open a connection for what is done once, and may take its time."""
        session = await self._database.connect_directly()
        session.patience = None
        try:
            yield session
        finally:
            await session.close()

    async def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int | None]:
        """Insert all of these jobs, or none; see `Store.enqueue`."""
        return await self._database.announce(partial(enqueueing.enqueue, jobs=jobs))

    async def claim(
        self, demand: Demand, *, worker: str, lease: timedelta, alone: bool = False
    ) -> Claimed:
        """Take due jobs for this worker; see `Store.claim`."""
        self._database.grace.learn(lease)
        if self._database.news.is_wanted:
            # Who is never without work never sleeps, but must hear of suspects.
            self._database.listen()
        claimed = await self._database.write(
            partial(
                self._database.claimer.claim,
                demand=demand,
                taker=Taker(worker=worker, lease=lease, alone=alone),
                look_again=self._database.look_again,
            ),
            urgent=True,
        )
        self._database.looked(found=bool(claimed.claims))
        return claimed

    async def renew(
        self,
        keys: Collection[ClaimKey],
        *,
        worker: str,
        lease: timedelta,
        abandoned: bool = False,
    ) -> Renewal:
        """Extend these claims by `lease` from now; see `Store.renew`."""
        self._database.grace.learn(lease)
        return await self._database.write(
            partial(
                finishing.renew,
                keys=keys,
                worker=worker,
                lease=lease,
                abandoned=abandoned,
            ),
            urgent=True,
        )

    async def cancel_requested(self, keys: Collection[ClaimKey]) -> frozenset[ClaimKey]:
        """Read which of these were asked to cancel; see `Store.cancel_requested`."""
        return await self._database.read(partial(read.cancel_requested, keys=keys))

    async def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        """Write what these claims ended as; see `Store.finish`."""
        return await self._database.announce(
            partial(finishing.finish, outcomes=outcomes), urgent=True
        )

    def wakeups(self, poll_interval: timedelta | None = None) -> PostgresWakeups:
        """Subscribe to news of this store; see `Store.wakeups`."""
        return PostgresWakeups(self._database, poll_interval)

    async def lost(self, limit: int, *, worker: str | None = None) -> Sequence[Claim]:
        """Read claims whose lease is over, or all of a worker; see `Store.lost`."""
        grace, look = self._database.grace, partial(read.lost, limit=limit)
        if worker is not None:
            return await self._database.read(partial(look, worker=worker))
        if not grace.is_over():
            return ()
        claims = await self._database.read(partial(look, worker=None))
        # Or the machine slept while this was on its way, and all of its leases ran out.
        return claims if grace.is_over() else ()

    async def save(
        self, key: ClaimKey, *, state: str | None = None, progress: str | None = None
    ) -> bool:
        """Keep a running attempt's state or progress; see `Store.save`."""
        return await self._database.write(
            partial(finishing.save, key=key, state=state, progress=progress)
        )

    async def prune(self, retention: Retention, *, limit: int) -> Pruned:
        """Expire and delete what is due for it; see `Store.prune`."""
        pruned, days = await self._database.write(
            partial(upkeep.prune, retention=retention, limit=limit)
        )
        if not days:
            return pruned
        dropped = await self._database.apart(
            partial(letting_go.drop, retention=retention, names=days, shown=self.url)
        )
        return replace(pruned, deleted=pruned.deleted + (dropped or 0))

    async def cancel(self, ids: Sequence[int], *, by: str) -> Sequence[Answer]:
        """Cancel pending jobs, ask running ones; see `Store.cancel`."""
        return await self._database.announce(partial(operate.cancel, ids=ids, by=by))

    async def replay(
        self,
        ids: Sequence[int],
        *,
        by: str,
        delay: timedelta = _NO_TIME,
        pace: timedelta = _NO_TIME,
        queue: str | None = None,
    ) -> Sequence[Answer]:
        """Put failed and cancelled jobs back to pending; see `Store.replay`."""
        return await self._database.announce(
            partial(operate.replay, ids=ids, by=by, delay=delay, pace=pace, queue=queue)
        )

    async def move(
        self,
        ids: Sequence[int],
        *,
        by: str,
        queue: str | None = None,
        priority: int | None = None,
        delay: timedelta | None = None,
    ) -> Sequence[Answer]:
        """Give pending jobs another place; see `Store.move`."""
        return await self._database.announce(
            partial(
                operate.move,
                ids=ids,
                by=by,
                queue=queue,
                priority=priority,
                delay=delay,
            )
        )

    async def delete(self, ids: Sequence[int]) -> Sequence[Answer]:
        """Remove finished jobs for good; see `Store.delete`."""
        return await self._database.announce(partial(operate.delete, ids=ids))

    async def pause(
        self, pause: Pause, *, for_: timedelta | None = None, resume: bool = False
    ) -> bool:
        """Pause a queue or a task, or resume it; see `Store.pause`."""
        answer = await self._database.write(
            partial(operate.pause, pause=pause, for_=for_, resume=resume)
        )
        # Also where one is replaced: it may end earlier than the sleepers believe.
        await self._database.tell_everything()
        return answer

    async def list(
        self, where: Filter, *, after: int | None = None, limit: int = 100
    ) -> Page:
        """Read a page of jobs that fit; see `Store.list`."""
        return await self._database.read(
            partial(read.list_jobs, where=where, after=after, limit=limit)
        )

    async def search(
        self, where: Filter, *, after: int | None = None, limit: int
    ) -> Matches:
        """Give the ids of jobs that fit; see `Store.search`."""
        return await self._database.read(
            partial(read.search, where=where, after=after, limit=limit)
        )

    async def register(
        self,
        worker: WorkerInfo | None,
        tasks: Sequence[TaskInfo],
        *,
        stopped: bool = False,
    ) -> None:
        """Tell operators of this worker and its tasks; see `Store.register`."""
        await self._database.write(
            partial(
                upkeep.register,
                worker=worker,
                tasks=tasks,
                clock=self._clock,
                stopped=stopped,
            )
        )

    async def stats(self) -> Stats:
        """Count jobs by queue and status; see `Store.stats`."""
        return await self._database.read(stats)

    async def get(self, ids: Sequence[int]) -> Sequence[Job]:
        """Read jobs by id; see `Store.get`."""
        return await self._database.read(partial(read.get, ids=ids))
