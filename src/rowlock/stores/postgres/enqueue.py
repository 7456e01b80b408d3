"""Adding jobs: all of them or none, in one statement, on any connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from rowlock._errors import StoreUnavailable
from rowlock._job import NewJob
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.bounds import Arrival, Line
from rowlock.stores.postgres.errors import NoPartition
from rowlock.stores.postgres.sessions import Row, Session

_AT_ONCE = timedelta(0)


class Added(NamedTuple):
    """The ids of jobs added, None for a duplicate, and the news of them."""

    answer: tuple[int | None, ...]
    arrivals: tuple[Arrival, ...]


NOTHING = Added((), ())

# Of one statement: characters of payloads, and jobs. An array holds 1 GB at most.
LARGEST = 64 * 2**20
MOST = 10_000

# Of a statement, where the holder of a key was changed while it waited.
TRIES = 3

R = TypeVar("R")


async def enqueue(session: Session, jobs: Sequence[NewJob]) -> Added:
    """Add jobs in the order given, all or none (laws 1, 10)."""
    if session.is_in_transaction:
        return await _enqueue(session, jobs)
    try:
        return await _enqueue_apart(session, jobs)
    except NoPartition:
        # A holder of a key had expired, and moves to the history.
        await session.run("make_partitions")
        return await _enqueue_apart(session, jobs)


async def _enqueue_apart(session: Session, jobs: Sequence[NewJob]) -> Added:
    if len(list(portions(jobs, _size))) <= 1:
        return await _enqueue(session, jobs)
    async with session.transaction():
        return await _enqueue(session, jobs)


async def _enqueue(session: Session, jobs: Sequence[NewJob]) -> Added:
    found = [await _add(session, part) for part in portions(jobs, _size)]
    return Added(
        tuple(job_id for part in found for job_id in part.answer),
        tuple(arrival for part in found for arrival in part.arrivals),
    )


async def _add(session: Session, jobs: Sequence[NewJob]) -> Added:
    for _ in range(TRIES):
        found = await session.run(operation(jobs), **values(jobs))
        if (it := added(jobs, found)) is not None:
            return it
    raise holders_change()


def _size(job: NewJob) -> int:
    return len(job.payload)


def portions(items: Sequence[R], size: Callable[[R], int]) -> Iterator[Sequence[R]]:
    """Part a batch, so that no array of a statement nears the server's limit."""
    start, total = 0, 0
    for place, item in enumerate(items):
        total += size(item)
        if place > start and (total > LARGEST or place - start >= MOST):
            yield items[start:place]
            start, total = place, size(item)
    if items:
        yield items[start:]


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


def added(jobs: Sequence[NewJob], found: Sequence[Row]) -> Added | None:
    """
    Read what the statement answered.

    None: the holder of a key was changed meanwhile, so nothing was added; try again.
    """
    ((now, ids),) = found
    if ids is None:
        return None
    return Added(tuple(ids), _arrivals(jobs, ids, now))


def holders_change() -> StoreUnavailable:
    """Say that every try met a holder which somebody else had just changed."""
    return StoreUnavailable(
        "The jobs that hold these idempotency keys are changed all the time: nothing"
        " was written, try again."
    )


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
