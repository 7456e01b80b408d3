"""Reading jobs and figures; each is one snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from heapq import merge
from itertools import islice

from rowlock._job import Claim, Job, Status
from rowlock._store import Filter, Page, QueueStats, Stats
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.sessions import Row, Session

# Where jobs of a status may be: finished ones stay behind in the first where a
# caller's transaction completed them and met no partition.
_IN_LIVE = frozenset(Status)
_IN_HISTORY = frozenset({Status.SUCCEEDED, Status.CANCELLED})


async def get(session: Session, ids: Sequence[int]) -> tuple[Job, ...]:
    """Read jobs by id, in the order given; missing ids are left out."""
    found = await session.run("get", ids=rows.numbers(list(ids)))
    by_id = {row[0]: row for row in found}
    return tuple(rows.job(by_id[job_id]) for job_id in ids if job_id in by_id)


async def list_jobs(
    session: Session, where: Filter, *, after: int | None, limit: int
) -> Page:
    """Read a page of jobs that fit, newest first."""
    values = {
        "ids": None if where.ids is None else rows.numbers(where.ids),
        "status": where.status,
        "task": where.task,
        "queue": where.queue,
        "idempotency_key": where.idempotency_key,
        "age": None if where.older_than is None else str(rows.micros(where.older_than)),
        "after": None if after is None else str(after),
        # One more tells whether another page follows.
        "limit": str(limit + 1),
    }
    pages: list[list[Row]] = []
    async with session.reading():
        if where.status is None or where.status in _IN_LIVE:
            pages.append(await session.run("list_live", **values))
        if where.status is None or where.status in _IN_HISTORY:
            pages.append(await session.run("list_history", **values))
    found = list(islice(merge(*pages, key=lambda row: -row[0]), limit + 1))
    jobs = tuple(rows.job(row) for row in found[:limit])
    return Page(jobs=jobs, after=jobs[-1].id if jobs and len(found) > limit else None)


async def lost(
    session: Session, limit: int, *, worker: str | None
) -> tuple[Claim, ...]:
    """Read claims whose lease is over, or all of a worker (law 9)."""
    if worker is None:
        found = await session.run("lost", limit=str(limit))
    else:
        found = await session.run("lost_of_worker", limit=str(limit), worker=worker)
    return tuple(rows.claim(row) for row in found)


async def stats(session: Session) -> Stats:
    """Count jobs by queue and status, and name live workers and pauses."""
    async with session.reading():
        found = await session.run("counts")
        workers = await session.run("live_workers")
        pauses = await session.run("pausing")
    counts: defaultdict[str, defaultdict[Status, int]] = defaultdict(
        lambda: defaultdict(int)
    )
    due: dict[str, tuple[int, datetime | None]] = {}
    for queue, status, count, n_due, oldest in found:
        counts[queue][Status(status)] += count
        if status == Status.PENDING:
            due[queue] = (n_due, oldest)
    queues = []
    for queue in sorted(counts):
        n_due, oldest = due.get(queue, (0, None))
        queues.append(
            QueueStats(
                queue=queue, counts=dict(counts[queue]), due=n_due, oldest_due=oldest
            )
        )
    return Stats(
        now=workers[0][0],
        queues=tuple(queues),
        workers=tuple(rows.worker(row) for row in workers if row[1] is not None),
        pauses=tuple(rows.pause(row) for row in pauses),
    )
