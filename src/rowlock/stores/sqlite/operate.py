"""
Operators' verbs: cancel, replay, move, delete, pause.

Each looks under the write lock how the jobs stand, changes those it may, notes the act
on them, and answers for every id in the order given. An id given twice is one job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock._errors import UsageError
from rowlock._job import JSON, Status
from rowlock._store import Answer, Pause
from rowlock.stores._json import write_json
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.read import Found, find
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence


def cancel(
    connection: sqlite3.Connection, now: int, ids: Sequence[int], *, by: str
) -> tuple[Answer, ...]:
    """Cancel pending jobs, ask running ones to cancel (law 21)."""
    jobs = find(connection, ids)
    pending = [job for job in jobs.values() if job.status is Status.PENDING]
    running = [job for job in jobs.values() if job.status is Status.RUNNING]
    asked = [job for job in running if job.cancel_requested_at is None]
    _change(connection, "cancel", pending, {"now": now})
    _change(connection, "request_cancel", asked, {"now": now})
    act: dict[str, JSON] = {"event": "cancel", "by": by, "at": rows.iso(now)}
    _note(connection, [*pending, *asked], act)
    done = _done(pending, Status.CANCELLED) | _done(running, Status.RUNNING)
    return _answers(ids, jobs, done)


def replay(
    connection: sqlite3.Connection,
    now: int,
    ids: Sequence[int],
    *,
    by: str,
    delay: int,
    pace: int,
    queue: str | None = None,
    most: int | None = None,
) -> tuple[Answer, ...]:
    """
    Put failed and cancelled jobs back to pending where their key is free.

    With `most` it is an automatic replay of dead letters, which is counted.
    """
    jobs = find(connection, ids)
    places = {job_id: nth for nth, job_id in enumerate(dict.fromkeys(ids))}
    act: dict[str, JSON] = {"event": "replay", "by": by, "at": rows.iso(now)}
    if queue is not None:
        act["queue"] = queue
    done: dict[int, Answer] = {}
    # The newest first: it then holds its key against the others.
    for job_id in sorted(jobs, reverse=True):
        job, due = jobs[job_id], now + delay + places[job_id] * pace
        if job.status not in (Status.FAILED, Status.CANCELLED) or _is_spent(job, most):
            continue
        blocked_by = _blocking(connection, now, job)
        if blocked_by is not None:
            done[job_id] = Answer(
                job_id=job_id, done=False, status=job.status, blocked_by=blocked_by
            )
            continue
        to = {
            "run_at": due,
            "queue": queue,
            "is_automatic": most is not None,
            "now": now,
        }
        _change(connection, "replay", [job], to)
        which = "" if most is None else f" ({job.auto_replays + 1} of {most})"
        told: dict[str, JSON] = {"by": f"{by}{which}", "run_at": rows.iso(due)}
        _note(connection, [job], act | told)
        done |= _done([job], Status.PENDING)
    return _answers(ids, jobs, done)


def move(
    connection: sqlite3.Connection,
    now: int,
    ids: Sequence[int],
    *,
    by: str,
    queue: str | None,
    priority: int | None,
    delay: int | None,
) -> tuple[Answer, ...]:
    """Give pending jobs another queue, priority or due time."""
    jobs = find(connection, ids)
    pending = [job for job in jobs.values() if job.status is Status.PENDING]
    run_at = None if delay is None else now + delay
    to = {"queue": queue, "priority": priority, "run_at": run_at}
    _change(connection, "move", pending, to | {"now": now})
    act: dict[str, JSON] = {"event": "move", "by": by, "at": rows.iso(now)}
    if queue is not None:
        act["queue"] = queue
    if priority is not None:
        act["priority"] = priority
    if run_at is not None:
        act["run_at"] = rows.iso(run_at)
    _note(connection, pending, act)
    return _answers(ids, jobs, _done(pending, Status.PENDING))


def delete(
    connection: sqlite3.Connection, _now: int, ids: Sequence[int]
) -> tuple[Answer, ...]:
    """Remove finished jobs for good."""
    jobs = find(connection, ids)
    finished = [job for job in jobs.values() if job.status.is_final]
    _change(connection, "delete", finished, {})
    return _answers(ids, jobs, _done(finished, None))


def pause(
    connection: sqlite3.Connection,
    now: int,
    pause: Pause,
    *,
    for_: int | None,
    resume: bool,
) -> bool:
    """Pause a queue or a task, or resume it; False: there was nothing to resume."""
    if (pause.queue is None) == (pause.task is None):
        msg = "A pause is of a queue or of a task: give exactly one of the two."
        raise UsageError(msg)
    until = None if pause.until is None else rows.to_micros(pause.until)
    row = {
        "queue": pause.queue,
        "task": pause.task,
        "until": until if for_ is None else now + for_,
        "reason": pause.reason,
        "by": pause.by,
        "now": now,
    }
    ended = connection.execute(SQL["resume"], row).fetchone()
    if resume:
        return ended is not None and bool(ended[0])
    connection.execute(SQL["pause"], row)
    return True


def _change(
    connection: sqlite3.Connection,
    operation: str,
    jobs: Iterable[Found],
    values: Mapping[str, object],
) -> None:
    connection.executemany(SQL[operation], [{"id": job.id, **values} for job in jobs])


def _note(
    connection: sqlite3.Connection, jobs: Iterable[Found], act: Mapping[str, JSON]
) -> None:
    """Add what an operator did to the jobs' errors."""
    entry = write_json(act)
    connection.executemany(
        SQL["add_error"],
        [{"id": job.id, "entry": entry, "last_error": None} for job in jobs],
    )


def _is_spent(job: Found, most: int | None) -> bool:
    """Say whether a job is none to replay automatically, or was so often enough."""
    if most is None:
        return False
    return job.status is not Status.FAILED or job.auto_replays >= most


def _blocking(connection: sqlite3.Connection, now: int, job: Found) -> int | None:
    if job.idempotency_key is None:
        return None
    holder = {
        "job_id": job.id,
        "task": job.task,
        "idempotency_key": job.idempotency_key,
    }
    connection.execute(SQL["free_key"], {**holder, "now": now})
    found = connection.execute(SQL["blocking"], holder).fetchone()
    return None if found is None else found[0]


def _done(jobs: Iterable[Found], status: Status | None) -> dict[int, Answer]:
    return {job.id: Answer(job_id=job.id, done=True, status=status) for job in jobs}


def _answers(
    ids: Sequence[int], jobs: Mapping[int, Found], done: Mapping[int, Answer]
) -> tuple[Answer, ...]:
    """Answer for every id; a job that nothing was done to, with how it stands."""
    return tuple(
        done.get(job_id)
        or Answer(
            job_id=job_id,
            done=False,
            status=jobs[job_id].status if job_id in jobs else None,
        )
        for job_id in ids
    )
