"""The figures of a Postgres store; those of several statements are one snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from rowlock._answers import Overview, Stats, TaskStats
from rowlock._figures import AHEAD_COUNTED, RATE_SPAN, Place, queues_of, rates_of
from rowlock.stores.postgres import rows

if TYPE_CHECKING:
    from rowlock.stores.postgres.database import Database
    from rowlock.stores.postgres.sessions import Session


class PostgresFigures:
    """A `Figures` for one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def now(self) -> datetime:
        """Tell the server's time; see `Figures.now`."""
        return await self._database.read(_now)

    async def overview(self) -> Overview:
        """Tell who is at work and what is paused; see `Figures.overview`."""
        return await self._database.read(_overview)

    async def due(self) -> Sequence[TaskStats]:
        """Count the jobs that are due; see `Figures.due`."""
        return await self._database.read(due_tasks)

    async def place(
        self, job_id: int, *, queue: str, tasks: Collection[str]
    ) -> Place | None:
        """Tell where a job stands; see `Figures.place`."""
        return await self._database.read(
            partial(place, job_id=job_id, queue=queue, tasks=tasks)
        )


async def _now(session: Session) -> datetime:
    ((now,),) = await session.run("now")
    told: datetime = now
    return told


async def stats(session: Session) -> Stats:
    """Count jobs by queue and status, and name live workers and pauses."""
    async with session.reading():
        counted = await session.run("counts")
        tasks = await due_tasks(session)
        rates = await _rates(session)
        seen = await overview(session)
    return Stats(
        now=seen.now,
        queues=queues_of(counted, rates),
        workers=seen.workers,
        pauses=seen.pauses,
        tasks=tasks,
        registered=seen.registered,
    )


async def overview(session: Session) -> Overview:
    """Name the live workers, the pauses and the tasks."""
    workers = await session.run("live_workers")
    pauses = await session.run("pausing")
    registered = await session.run("registered")
    return Overview(
        now=workers[0][0],
        workers=tuple(rows.worker(row) for row in workers if row[1] is not None),
        pauses=tuple(rows.pause(row) for row in pauses),
        registered=tuple(rows.task(row) for row in registered),
    )


async def due_tasks(session: Session) -> tuple[TaskStats, ...]:
    """Count the jobs that are due, by queue and task."""
    found = await session.run("due_tasks")
    return tuple(TaskStats(queue=row[0], task=row[1], due=row[2]) for row in found)


async def _overview(session: Session) -> Overview:
    async with session.reading():
        return await overview(session)


async def _rates(session: Session) -> Mapping[str, float]:
    ended = await session.run("rates", span=str(rows.micros(RATE_SPAN)))
    return rates_of(ended)


async def place(
    session: Session, *, job_id: int, queue: str, tasks: Collection[str]
) -> Place | None:
    """Tell where a job stands in its queue."""
    # Not in one snapshot: a session that reads may plan as usual, which is to fetch all
    # that is due before it counts as many as it is asked to.
    found = await session.run("place", id=str(job_id), queue=queue)
    if not found:
        return None
    ((suspect, priority, run_at, now),) = found
    lines = await session.run("lines", queues=rows.texts([queue]))
    # All that is due is claimed before what is planned.
    last = (now + timedelta(microseconds=1), 0)
    before = {
        line: last if line > priority else min((run_at, job_id), last)
        for _, line in lines
        if line >= priority
    }
    counted = await session.run(
        "ahead",
        queue=queue,
        suspects=str(suspect),
        tasks=rows.texts([*tasks]),
        priorities=rows.numbers([*before]),
        before_ats=rows.instants([at for at, _ in before.values()]),
        before_ids=rows.numbers([last_id for _, last_id in before.values()]),
        limit=str(AHEAD_COUNTED),
    )
    rates = await _rates(session)
    ahead = sum(count for _, count in counted)
    by_priority = sum(count for line, count in counted if line > priority)
    return Place(
        is_suspect=suspect,
        ahead=min(ahead, AHEAD_COUNTED),
        by_priority=min(by_priority, AHEAD_COUNTED),
        rate=rates.get(queue, 0.0),
    )
