"""Adding jobs: all of them or none, in one statement, on any connection."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rowlock._job import NewJob
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.bounds import Arrival, Line
from rowlock.stores.postgres.sessions import Row, Session

_AT_ONCE = timedelta(0)


class Added(NamedTuple):
    """The ids of jobs added, None for a duplicate, and the news of them."""

    answer: tuple[int | None, ...]
    arrivals: tuple[Arrival, ...]


NOTHING = Added((), ())


async def enqueue(session: Session, jobs: Sequence[NewJob]) -> Added:
    """Add jobs in the order given (laws 1, 10)."""
    if not jobs:
        return NOTHING
    return added(jobs, await session.run(operation(jobs), **values(jobs)))


def operation(jobs: Sequence[NewJob]) -> str:
    """Name the statement that adds these jobs."""
    is_keyed = any(job.idempotency_key is not None for job in jobs)
    return "enqueue_keyed" if is_keyed else "enqueue"


def values(jobs: Sequence[NewJob]) -> dict[str, str | None]:
    """Write the parameters of that statement."""
    return {
        "queues": rows.texts([job.queue for job in jobs]),
        "tasks": rows.texts([job.task for job in jobs]),
        "payloads": rows.texts([job.payload for job in jobs]),
        "priorities": rows.numbers([job.priority for job in jobs]),
        "delays": rows.numbers([rows.micros(job.delay) for job in jobs]),
        "run_ats": rows.instants([job.run_at for job in jobs]),
        "expires_ats": rows.instants([job.expires_at for job in jobs]),
        "max_attempts": rows.numbers([job.max_attempts for job in jobs]),
        "timeouts": rows.numbers([job.timeout for job in jobs]),
        "backoffs": rows.texts([rows.maybe_json(job.backoff) for job in jobs]),
        "metas": rows.texts([rows.maybe_json(job.meta) for job in jobs]),
        "idempotency_keys": rows.texts([job.idempotency_key for job in jobs]),
    }


def added(jobs: Sequence[NewJob], found: Sequence[Row]) -> Added:
    """Read what the statement answered."""
    ((now, ids),) = found
    return Added(tuple(ids), _arrivals(jobs, ids, now))


def _arrivals(
    jobs: Sequence[NewJob], ids: Sequence[int | None], now: datetime
) -> tuple[Arrival, ...]:
    """Tell of each line when its first new job is due, and its first deferred one."""
    first: dict[Line, datetime] = {}
    deferred: dict[Line, datetime] = {}
    for job, job_id in zip(jobs, ids, strict=True):
        if job_id is None:
            continue
        line = Line(job.queue, job.priority)
        if job.run_at is None and job.delay == _AT_ONCE:
            if line not in first or now < first[line]:
                first[line] = now
            continue
        at = now + job.delay if job.run_at is None else job.run_at
        first[line] = min(at, first.get(line, at))
        deferred[line] = min(at, deferred.get(line, at))
    return tuple(Arrival(line, at, deferred.get(line)) for line, at in first.items())
