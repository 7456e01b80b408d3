"""Adding jobs: all of them or none, in one statement, on any connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from rowlock._errors import StoreUnavailable
from rowlock._job import NewJob
from rowlock._keys import conflict
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
    if len(list(in_portions(jobs))) <= 1:
        return await _enqueue(session, jobs)
    async with session.transaction():
        return await _enqueue(session, jobs)


async def _enqueue(session: Session, jobs: Sequence[NewJob]) -> Added:
    found = NOTHING
    order = in_order(jobs)
    for part in in_portions([jobs[place] for place in order]):
        found = together(found, await _add(session, part, found.answer))
    return as_given(found, order)


def together(one: Added, other: Added) -> Added:
    """Put the answers of two statements together."""
    return Added(one.answer + other.answer, one.arrivals + other.arrivals)


async def _add(
    session: Session, jobs: Sequence[NewJob], before: Sequence[int | None]
) -> Added:
    for _ in range(TRIES):
        found = await session.run(operation(jobs), **values(jobs))
        if (it := added(jobs, found, before)) is not None:
            return it
    raise holders_change()


def in_order(jobs: Sequence[NewJob]) -> Sequence[int]:
    """
    Give the places of jobs as they are to be added.

    A statement takes its keys in sorted order. So do several, or two calls would block
    each other: each would have a portion whose keys the other is still to take.
    """
    places = range(len(jobs))
    if not any(map(_is_keyed, jobs)) or len(list(in_portions(jobs))) <= 1:
        return places
    # By their code points, as the collation "C" has it.
    return sorted(
        places, key=lambda at: (jobs[at].task, jobs[at].idempotency_key or "", at)
    )


def as_given(found: Added, order: Sequence[int]) -> Added:
    """Put the ids of jobs that were added in an order into the order given."""
    if isinstance(order, range):
        return found
    by_place = dict(zip(order, found.answer, strict=True))
    return Added(tuple(by_place[at] for at in range(len(order))), found.arrivals)


def _is_keyed(job: NewJob) -> bool:
    return job.idempotency_key is not None


def in_portions(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """Part jobs into those of one statement each."""
    return portions(jobs, lambda job: len(job.payload))


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
    if any(job.on_conflict != "skip" for job in jobs):
        return "enqueue_on_conflict"
    return "enqueue_keyed" if any(map(_is_keyed, jobs)) else "enqueue"


def values(jobs: Sequence[NewJob]) -> dict[str, str | None]:
    """Write the parameters of that statement."""
    kept = [job.idempotency_for for job in jobs]
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
        "idempotency_fors": rows.numbers([rows.maybe_micros(k) for k in kept]),
        "on_conflicts": rows.texts([job.on_conflict for job in jobs]),
    }


def added(
    jobs: Sequence[NewJob], found: Sequence[Row], before: Sequence[int | None] = ()
) -> Added | None:
    """
    Read what the statement answered; `before` are the ids that the call has made.

    None: the holder of a key was changed meanwhile, so nothing was added; try again.

    Raises:
        KeyConflict: a job is in the way of one of these; nothing was added.
    """
    if operation(jobs) == "enqueue_on_conflict":
        return _decided(jobs, found, before)
    ((now, text),) = found
    if text is None:
        return None
    ids = rows.read_numbers(text)
    return Added(ids, _arrivals(jobs, ids, datetime.fromisoformat(now)))


def _decided(
    jobs: Sequence[NewJob], found: Sequence[Row], before: Sequence[int | None]
) -> Added:
    """Read what `enqueue_on_conflict.sql` answered."""
    ids = [made and int(made) for _, _, made, *_ in found]
    replaced: list[Arrival] = []
    for _, place, _, in_the_way, queue, priority, due, is_suspect in found:
        if in_the_way is not None:
            holder = int(in_the_way)
            # One of the same call isn't there any more.
            is_ours = holder in ids or holder in before
            raise conflict(jobs[int(place) - 1], None if is_ours else holder)
        if due is not None:
            line, at = Line(queue, int(priority)), datetime.fromisoformat(due)
            arrival = Arrival(line, at, at, is_suspect=is_suspect == "true")
            replaced.append(arrival)
    now = datetime.fromisoformat(found[0][0])
    return Added(tuple(ids), (*_arrivals(jobs, ids, now), *replaced))


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
