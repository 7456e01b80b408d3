"""What happens to a claim that is held: finished, renewed, its state saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock._job import ClaimKey, Status
from rowlock._store import Renewal, Settled
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.enqueue import enqueue
from rowlock.stores.sqlite.read import Found, find
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    from rowlock._job import Outcome

LAST_ERROR = 1000  # characters of `last_error`

_UNDER_A_CANCEL = (Status.PENDING, Status.FAILED)  # become cancelled (law 21)


def finish(
    connection: sqlite3.Connection, now: int, outcomes: Sequence[Outcome]
) -> tuple[Settled, ...]:
    """Write these outcomes where their claim holds, then the jobs they spawn."""
    jobs = find(connection, {outcome.key.job_id for outcome in outcomes})
    settled = [_finish_one(connection, now, outcome, jobs) for outcome in outcomes]
    # Only now: the jobs that are done have freed their keys.
    return tuple(
        Settled(
            key=answer.key,
            accepted=True,
            status=answer.status,
            claims=answer.claims,
            run_at=answer.run_at,
            spawned=enqueue(connection, now, outcome.spawned),
        )
        if answer.accepted and outcome.spawned
        else answer
        for answer, outcome in zip(settled, outcomes, strict=True)
    )


def _finish_one(
    connection: sqlite3.Connection, now: int, outcome: Outcome, jobs: dict[int, Found]
) -> Settled:
    key = outcome.key
    job = jobs.get(key.job_id)
    if job is None:
        return Settled(key=key, accepted=False, status=None, claims=None)
    if job.status is not Status.RUNNING or job.claims != key.claim:
        return Settled(key=key, accepted=False, status=job.status, claims=job.claims)
    status = outcome.status
    if job.cancel_requested_at is not None and status in _UNDER_A_CANCEL:
        status = Status.CANCELLED
    run_at = now + rows.to_span(outcome.delay) if status is Status.PENDING else None
    # The wall clock may have been set back since the start.
    ended_at = now if job.started_at is None else max(now, job.started_at)
    _write(connection, now, outcome, status, run_at=run_at, ended_at=ended_at)
    if outcome.error is not None:
        _add_error(connection, job, outcome, ended_at)
    # A second outcome of this claim in the same batch meets what this one wrote.
    jobs[key.job_id] = job._replace(status=status)
    return Settled(
        key=key,
        accepted=True,
        status=status,
        claims=job.claims,
        run_at=rows.maybe_instant(run_at),
    )


def _write(
    connection: sqlite3.Connection,
    now: int,
    outcome: Outcome,
    status: Status,
    *,
    run_at: int | None,
    ended_at: int,
) -> None:
    connection.execute(
        SQL["finish"],
        {
            "id": outcome.key.job_id,
            "claim": outcome.key.claim,
            "status": status.value,
            "run_at": run_at,
            "finished_at": ended_at if status.is_final else None,
            "unstarted": outcome.unstarted,
            "failed": outcome.failed,
            "lost": outcome.lost,
            "result": outcome.result if status is Status.SUCCEEDED else None,
            "meta": rows.maybe_json(outcome.meta),
            "now": now,
        },
    )


def _add_error(
    connection: sqlite3.Connection, job: Found, outcome: Outcome, ended_at: int
) -> None:
    error = outcome.error or {}
    event = "lost" if outcome.lost else "failed" if outcome.failed else "released"
    entry = {
        **error,
        "event": event,
        "attempt": job.attempts,
        "worker": job.worker,
        "started_at": None if job.started_at is None else rows.iso(job.started_at),
        "ended_at": rows.iso(ended_at),
    }
    text = f"{error.get('type', 'Error')}: {error.get('message', '')}"
    connection.execute(
        SQL["add_error"],
        {"id": job.id, "entry": rows.to_json(entry), "last_error": text[:LAST_ERROR]},
    )


def renew(
    connection: sqlite3.Connection,
    now: int,
    keys: Collection[ClaimKey],
    *,
    worker: str,
    lease: int,
    abandoned: bool,
) -> Renewal:
    """Extend what is held, and show that the worker lives (law 8)."""
    lost, cancelled = set(), set()
    for key in keys:
        found = connection.execute(
            SQL["renew"],
            {
                "id": key.job_id,
                "claim": key.claim,
                "leased_until": now + lease,
                "abandoned": abandoned,
            },
        ).fetchone()
        if found is None:
            lost.add(key)
        elif found[0] is not None:
            cancelled.add(key)
    connection.execute(SQL["see_worker"], {"worker": worker, "now": now})
    return Renewal(lost=frozenset(lost), cancelled=frozenset(cancelled))


def save(
    connection: sqlite3.Connection,
    now: int,
    key: ClaimKey,
    *,
    state: str | None,
    progress: str | None,
) -> bool:
    """Keep a running attempt's state or progress; False: the claim is lost."""
    row = {
        "id": key.job_id,
        "claim": key.claim,
        "state": state,
        "progress": progress,
        "now": now,
    }
    return connection.execute(SQL["save"], row).fetchone() is not None
