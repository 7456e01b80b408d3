"""
The SQLite store: the whole of `Store` on one file, or in memory.

Each method names what runs, in which thread, and whether it makes news; what runs is
in the modules beside this one. No method is bound to an event loop or a thread.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING
from weakref import finalize

from rowlock._clock import Clock, SystemClock
from rowlock._job import Status
from rowlock.stores.sqlite import claim as claiming
from rowlock.stores.sqlite import finish as finishing
from rowlock.stores.sqlite import operate, read, rows, upkeep
from rowlock.stores.sqlite.connection import check_version
from rowlock.stores.sqlite.copying import SQLiteCopying
from rowlock.stores.sqlite.database import Database
from rowlock.stores.sqlite.dead_letters import SQLiteDeadLetters
from rowlock.stores.sqlite.enqueue import enqueue
from rowlock.stores.sqlite.figures import SQLiteFigures, stats
from rowlock.stores.sqlite.lent import SQLiteLent
from rowlock.stores.sqlite.url import Address, read_url, show_url
from rowlock.stores.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

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
    from rowlock.stores.news import Subscription
    from rowlock.stores.sqlite.connection import Trace

_NO_TIME = timedelta(0)


class SQLiteStore:
    """
    A `Store` in a file, or in memory.

    `trace` is told of every statement that its own connections run.
    """

    def __init__(
        self,
        address: Address,
        *,
        clock: Clock | None = None,
        trace: Trace | None = None,
    ) -> None:
        check_version()
        self._clock = clock or SystemClock()
        self._database = Database(
            address.path,
            synchronous=address.synchronous,
            clock=self._clock,
            trace=trace,
        )
        self._lent = SQLiteLent(self._database, self._clock)
        self._dead_letters = SQLiteDeadLetters(self._database)
        self._figures = SQLiteFigures(self._database, self._clock)
        self._copying = SQLiteCopying(self._database, self._clock)
        # Apart, or a claim of one that comes before each of the others takes every turn
        # of a queue.
        self._turns = {suspects: Turns() for suspects in (False, True)}
        # A store that is dropped unclosed. At exit the threads run on: `thread._flush`.
        finalize(self, self._database.abandon).atexit = False

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None) -> SQLiteStore:
        """Read a URL; see `url.read_url`."""
        return cls(read_url(url), clock=clock)

    @property
    def url(self) -> str:
        """Where this store is, to show: absolute."""
        return show_url(self._database.path)

    @property
    def is_new(self) -> bool:
        """Whether `open` made the file."""
        return self._database.is_new

    @property
    def lent(self) -> SQLiteLent:
        """The operations on a connection that the caller lends."""
        return self._lent

    @property
    def dead_letters(self) -> SQLiteDeadLetters:
        """What is asked of dead letters as groups, and their automatic replay."""
        return self._dead_letters

    @property
    def figures(self) -> SQLiteFigures:
        """What is counted for an operator who asks."""
        return self._figures

    @property
    def copying(self) -> SQLiteCopying:
        """How everything in it is copied to another store."""
        return self._copying

    @property
    def doctor(self) -> Doctor:
        """Who examines this database."""
        from rowlock.stores.sqlite import doctor  # noqa: PLC0415 - seldom needed

        return doctor.SQLiteDoctor(self._database, self._clock)

    async def open(self) -> None:
        """Connect, and migrate what is pending; see `Store.open`."""
        await self._database.open()

    async def close(self) -> None:
        """Finish what was handed over, then let go of every connection."""
        await self._database.close()

    async def migrate(self, *, dry_run: bool = False) -> Sequence[Migration]:
        """Apply what is pending, which `open` does too; see `Store.migrate`."""
        if dry_run:
            return await self._database.pending()
        return await self._database.open()

    async def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int | None]:
        """Insert all of these jobs, or none; see `Store.enqueue`."""
        return await self._database.write(partial(enqueue, jobs=jobs), news=True)

    async def claim(
        self, demand: Demand, *, worker: str, lease: timedelta, alone: bool = False
    ) -> Claimed:
        """Take due jobs for this worker; see `Store.claim`."""
        self._database.grace.learn(lease)
        return await self._database.write(
            partial(
                claiming.claim,
                demand=demand,
                turns=self._turns[demand.suspects],
                worker=worker,
                lease=rows.to_span(lease),
                alone=alone,
            ),
            peek=partial(claiming.peek, demand=demand, worker=worker),
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
        self._database.grace.learn(lease)
        return await self._database.write(
            partial(
                finishing.renew,
                keys=keys,
                worker=worker,
                lease=rows.to_span(lease),
                abandoned=abandoned,
            )
        )

    async def cancel_requested(self, keys: Collection[ClaimKey]) -> frozenset[ClaimKey]:
        """Read which of these were asked to cancel; see `Store.cancel_requested`."""
        return await self._database.read(partial(read.cancel_requested, keys=keys))

    async def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        """Write what these claims ended as; see `Store.finish`."""
        news = any(
            outcome.status is Status.PENDING or outcome.spawned for outcome in outcomes
        )
        return await self._database.write(
            partial(finishing.finish, outcomes=outcomes), news=news
        )

    def wakeups(self, poll_interval: timedelta | None = None) -> Subscription:
        """Subscribe to news of this store, which always come; see `Store.wakeups`."""
        del poll_interval
        return self._database.news.subscribe()

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
        return await self._database.write(
            partial(upkeep.prune, retention=retention, limit=limit)
        )

    async def cancel(self, ids: Sequence[int], *, by: str) -> Sequence[Answer]:
        """Cancel pending jobs, ask running ones; see `Store.cancel`."""
        return await self._database.write(partial(operate.cancel, ids=ids, by=by))

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
        return await self._database.write(
            partial(
                operate.replay,
                ids=ids,
                by=by,
                delay=rows.to_span(delay),
                pace=rows.to_span(pace),
                queue=queue,
            ),
            news=True,
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
        return await self._database.write(
            partial(
                operate.move,
                ids=ids,
                by=by,
                queue=queue,
                priority=priority,
                delay=None if delay is None else rows.to_span(delay),
            ),
            news=True,
        )

    async def delete(self, ids: Sequence[int]) -> Sequence[Answer]:
        """Remove finished jobs for good; see `Store.delete`."""
        return await self._database.write(partial(operate.delete, ids=ids))

    async def pause(
        self, pause: Pause, *, for_: timedelta | None = None, resume: bool = False
    ) -> bool:
        """Pause a queue or a task, or resume it; see `Store.pause`."""
        return await self._database.write(
            partial(
                operate.pause,
                pause=pause,
                for_=None if for_ is None else rows.to_span(for_),
                resume=resume,
            ),
            news=True,  # one that is replaced may end earlier than sleepers believe
        )

    async def get(self, ids: Sequence[int]) -> Sequence[Job]:
        """Read jobs by id; see `Store.get`."""
        return await self._database.read(partial(read.get, ids=ids))

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
            partial(upkeep.register, worker=worker, tasks=tasks, stopped=stopped)
        )

    async def stats(self) -> Stats:
        """Count jobs by queue and status; see `Store.stats`."""
        return await self._database.read(stats)
