"""The figures of an SQLite store; each is one snapshot."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rowlock._answers import Overview, Stats, TaskStats
from rowlock._figures import AHEAD_COUNTED, RATE_SPAN, Place, queues_of, rates_of
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from rowlock._clock import Clock
    from rowlock.stores.sqlite.database import Database


class SQLiteFigures:
    """A `Figures` for one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def now(self) -> datetime:
        """Tell the time of this machine, as all who use the file do."""
        return self._clock.now()

    async def overview(self) -> Overview:
        """Tell who is at work and what is paused; see `Figures.overview`."""
        return await self._database.read(overview)

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


def overview(connection: sqlite3.Connection, now: int) -> Overview:
    """Name the live workers, the pauses and the tasks."""
    workers = connection.execute(SQL["live_workers"], {"now": now}).fetchall()
    pauses = connection.execute(SQL["pausing"], {"now": now}).fetchall()
    registered = connection.execute(SQL["registered"]).fetchall()
    return Overview(
        now=rows.instant(now),
        workers=tuple(rows.worker(row) for row in workers),
        pauses=tuple(rows.pause(row) for row in pauses),
        registered=tuple(rows.task(row) for row in registered),
    )


def due_tasks(connection: sqlite3.Connection, now: int) -> tuple[TaskStats, ...]:
    """Count the jobs that are due, by queue and task."""
    found = connection.execute(SQL["due_tasks"], {"now": now}).fetchall()
    return tuple(TaskStats(queue=row[0], task=row[1], due=row[2]) for row in found)


def stats(connection: sqlite3.Connection, now: int) -> Stats:
    """Count jobs by queue and status, and name live workers and pauses."""
    counted = connection.execute(SQL["counts"], {"now": now}).fetchall()
    queues = queues_of(
        ((*row[:4], rows.maybe_instant(row[4])) for row in counted),
        _rates(connection, now),
    )
    seen = overview(connection, now)
    return Stats(
        now=seen.now,
        queues=queues,
        workers=seen.workers,
        pauses=seen.pauses,
        tasks=due_tasks(connection, now),
        registered=seen.registered,
    )


def _rates(connection: sqlite3.Connection, now: int) -> Mapping[str, float]:
    since = {"since": now - rows.to_span(RATE_SPAN)}
    ended = connection.execute(SQL["rates"], since).fetchall()
    return rates_of(ended)


def place(
    connection: sqlite3.Connection,
    now: int,
    *,
    job_id: int,
    queue: str,
    tasks: Collection[str],
) -> Place | None:
    """Tell where a job stands in its queue."""
    found = connection.execute(SQL["place"], {"id": job_id, "queue": queue}).fetchone()
    if found is None:
        return None
    suspect, priority, run_at = found
    here = {"queue": queue, "suspects": suspect, "now": now}
    # All that is due is claimed before what is planned.
    last = (now + 1, 0)
    ahead = by_priority = 0
    for line in connection.execute(SQL["lines"], here).fetchall():
        line_priority, task, *_ = line
        if line_priority < priority or task not in tasks:
            continue
        is_better = line_priority > priority
        before = last if is_better else min((run_at, job_id), last)
        values = dict(zip(("before_run_at", "before_id"), before, strict=True)) | here
        values |= {"priority": line_priority, "task": task, "limit": AHEAD_COUNTED}
        (count,) = connection.execute(SQL["ahead"], values).fetchone()
        ahead += count
        by_priority += count * is_better
    rate = _rates(connection, now).get(queue, 0.0)
    return Place(
        is_suspect=bool(suspect),
        ahead=min(ahead, AHEAD_COUNTED),
        by_priority=min(by_priority, AHEAD_COUNTED),
        rate=rate,
    )
