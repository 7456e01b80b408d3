"""
Operators' verbs: cancel, replay, move, delete, pause.

Each changes the jobs that it may, notes the act on them, and answers for every id in
the order given. An id given twice is one job. A row that somebody's transaction holds
is waited for apart from the others, for a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from rowlock._errors import StoreUnavailable, UsageError
from rowlock._job import JSON, Status
from rowlock._store import Answer, Pause
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.bounds import Arrival, Line
from rowlock.stores.postgres.errors import Locked, NoPartition, Taken
from rowlock.stores.postgres.finish import find, make_partitions
from rowlock.stores.postgres.sessions import Row, Session

_TRIES = 3


class Answered(NamedTuple):
    """An answer an id, in their order, and the news of jobs that are due again."""

    answer: tuple[Answer, ...]
    arrivals: tuple[Arrival, ...] = ()


class Left(NamedTuple):
    """How a job stands to which a verb did nothing, and whether it was in its way."""

    status: Status | None
    is_locked: bool


# Runs a verb's statement on ids in their order; the rows begin with the job's id.
Verb = Callable[[Sequence[int]], Awaitable[Sequence[Row]]]


async def cancel(session: Session, ids: Sequence[int], *, by: str) -> Answered:
    """Cancel pending jobs, ask running ones to cancel (law 21)."""
    act = rows.to_json({"event": "cancel", "by": by})

    async def run(chosen: Sequence[int]) -> Sequence[Row]:
        return await session.run("cancel", ids=rows.numbers(chosen), act=act)

    done, left = await _patiently(session, ids, run, {Status.PENDING, Status.RUNNING})
    answers = {
        job_id: Answer(job_id=job_id, done=True, status=Status(status))
        for job_id, status in done.values()
    }
    return Answered(_answers(ids, answers, left))


async def replay(
    session: Session,
    ids: Sequence[int],
    *,
    by: str,
    delay: timedelta,
    pace: timedelta,
    queue: str | None = None,
    most: int | None = None,
) -> Answered:
    """
    Put failed and cancelled jobs back to pending where their key is free.

    With `most` it is an automatic replay of dead letters, which is counted.
    """
    act: dict[str, JSON] = {"event": "replay", "by": by}
    if queue is not None:
        act["queue"] = queue
    first, step = rows.micros(delay), rows.micros(pace)
    places = {job_id: nth for nth, job_id in enumerate(dict.fromkeys(ids))}

    async def run(chosen: Sequence[int]) -> Sequence[Row]:
        await session.run("free_keys_of", ids=rows.numbers(chosen))
        return await session.run(
            "replay",
            ids=rows.numbers(chosen),
            delays=rows.numbers([first + places[job_id] * step for job_id in chosen]),
            act=rows.to_json(act),
            queue=queue,
            most=None if most is None else str(most),
        )

    done, left = await _patiently(session, ids, run, {Status.FAILED, Status.CANCELLED})
    answers = await _replayed(session, done.values())
    return Answered(
        _answers(ids, answers, left),
        tuple(
            Arrival(Line(queue, priority), run_at, run_at)
            for _, blocked_by, queue, priority, run_at in done.values()
            if blocked_by is None
        ),
    )


async def _replayed(session: Session, done: Iterable[Row]) -> dict[int, Answer]:
    """Answer for those put back, and for those whose key another job holds."""
    blocked = {row[0]: row[1] for row in done if row[1] is not None}
    stands = await _stands(session, blocked) if blocked else {}
    return {
        job_id: Answer(
            job_id=job_id,
            done=job_id not in blocked,
            status=stands.get(job_id) if job_id in blocked else Status.PENDING,
            blocked_by=blocked.get(job_id),
        )
        for job_id, *_ in done
    }


async def move(
    session: Session,
    ids: Sequence[int],
    *,
    by: str,
    queue: str | None,
    priority: int | None,
    delay: timedelta | None,
) -> Answered:
    """Give pending jobs another queue, priority or due time."""
    act: dict[str, JSON] = {"event": "move", "by": by}
    if queue is not None:
        act["queue"] = queue
    if priority is not None:
        act["priority"] = priority

    async def run(chosen: Sequence[int]) -> Sequence[Row]:
        return await session.run(
            "move",
            ids=rows.numbers(chosen),
            act=rows.to_json(act),
            queue=queue,
            priority=None if priority is None else str(priority),
            delay=None if delay is None else str(rows.micros(delay)),
        )

    done, left = await _patiently(session, ids, run, {Status.PENDING})
    answers = {
        job_id: Answer(job_id=job_id, done=True, status=Status.PENDING)
        for job_id in done
    }
    return Answered(
        _answers(ids, answers, left),
        tuple(
            Arrival(Line(queue, priority), run_at, run_at, is_suspect=suspect)
            for _, queue, priority, run_at, suspect in done.values()
        ),
    )


async def delete(session: Session, ids: Sequence[int]) -> Answered:
    """Remove finished jobs for good."""

    async def run(chosen: Sequence[int]) -> Sequence[Row]:
        return await session.run("delete", ids=rows.numbers(chosen))

    done, left = await _patiently(
        session, ids, run, {Status.SUCCEEDED, Status.FAILED, Status.CANCELLED}
    )
    answers = {job_id: Answer(job_id=job_id, done=True, status=None) for job_id in done}
    return Answered(_answers(ids, answers, left))


async def pause(
    session: Session, pause: Pause, *, for_: timedelta | None, resume: bool
) -> bool:
    """Pause a queue or a task, or resume it; False: there was nothing to resume."""
    if (pause.queue is None) == (pause.task is None):
        msg = "A pause is of a queue or of a task: give exactly one of the two."
        raise UsageError(msg)
    async with session.transaction():
        await session.run("lock_pauses")
        ended = await session.run("resume", queue=pause.queue, task=pause.task)
        if resume:
            return bool(ended) and bool(ended[0][0])
        await session.run(
            "pause",
            queue=pause.queue,
            task=pause.task,
            span=None if for_ is None else str(rows.micros(for_)),
            until=None if pause.until is None else pause.until.isoformat(),
            reason=pause.reason,
            by=pause.by,
        )
    return True


async def _patiently(
    session: Session, ids: Sequence[int], run: Verb, may: Collection[Status]
) -> tuple[Mapping[int, Row], Mapping[int, Left]]:
    """
    Run a verb, and once more for the rows that were locked.

    Gives its rows by job, and how the others stand.
    """
    ordered = sorted(set(ids))
    done = await _firmly(session, ordered, run)
    left = await _left(session, ordered, done, may)
    locked = [job_id for job_id, each in left.items() if each.is_locked]
    if locked:
        with contextlib.suppress(Locked):
            done = {**done, **await _firmly(session, locked, run, wait=True)}
        left = await _left(session, ordered, done, may)
    return done, left


async def _left(
    session: Session,
    ids: Sequence[int],
    done: Mapping[int, Row],
    may: Collection[Status],
) -> dict[int, Left]:
    """Tell how those stand that the verb passed by: what it may change was locked."""
    left = [job_id for job_id in ids if job_id not in done]
    stands = await _stands(session, left) if left else {}
    return {job_id: Left(status, status in may) for job_id, status in stands.items()}


async def _firmly(
    session: Session, ids: Sequence[int], run: Verb, *, wait: bool = False
) -> dict[int, Row]:
    """Run a verb again where a partition was missing or a key taken meanwhile."""
    for _ in range(_TRIES):
        try:
            if not wait:
                return {row[0]: row for row in await run(ids)}
            async with session.transaction():
                await session.run("lock", ids=rows.numbers(ids))
                return {row[0]: row for row in await run(ids)}
        except NoPartition:
            await make_partitions(session, ids)
        except Taken:
            continue
    msg = "The keys of these jobs are taken and freed all the time: try again."
    raise StoreUnavailable(msg)


async def _stands(session: Session, ids: Collection[int]) -> dict[int, Status]:
    return {
        job_id: stand.status for job_id, stand in (await find(session, ids)).items()
    }


def _answers(
    ids: Sequence[int], answers: Mapping[int, Answer], left: Mapping[int, Left]
) -> tuple[Answer, ...]:
    """Answer for every id; a job that nothing was done to, with how it stands."""
    return tuple(answers.get(job_id) or _not_done(job_id, left) for job_id in ids)


def _not_done(job_id: int, left: Mapping[int, Left]) -> Answer:
    status, is_locked = left.get(job_id, Left(None, is_locked=False))
    return Answer(job_id=job_id, done=False, status=status, is_locked=is_locked)
