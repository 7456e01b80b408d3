"""What happens to a claim that is held: finished, renewed, its state saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowlock._errors import ClaimLost
from rowlock._fingerprint import fingerprint
from rowlock._job import JSON, ClaimKey, Status
from rowlock._keys import spawned_of
from rowlock._outcome import in_words
from rowlock._store import Fate, Renewal, Settled
from rowlock.stores._json import write_json
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.enqueue import enqueue
from rowlock.stores.sqlite.read import Found, find
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence

    from rowlock._job import Outcome
    from rowlock.stores.sqlite.statements import Executor

LAST_ERROR = 1000  # characters of `last_error`

_UNDER_A_CANCEL = (Status.PENDING, Status.FAILED)  # become cancelled (law 21)


class End(NamedTuple):
    """What becomes of a job whose claim holds."""

    status: Status
    run_at: int | None
    ended_at: int


def finish(
    connection: Executor, now: int, outcomes: Sequence[Outcome]
) -> tuple[Settled, ...]:
    """Write these outcomes where their claim holds, then the jobs they spawn."""
    jobs = find(connection, {outcome.key.job_id for outcome in outcomes})
    settled: list[Settled] = []
    ends: list[dict[str, object]] = []
    errors: list[dict[str, object]] = []
    for outcome in outcomes:
        job = jobs.get(outcome.key.job_id)
        if job is None or not _holds(outcome, job):
            settled.append(_refused(outcome.key, job))
            continue
        end = _judge(outcome, job, now)
        ends.append(_row(outcome, end, now))
        if outcome.error is not None:
            version = _version(connection, job.worker)
            errors.append(_error(outcome.error, outcome, job, end, version))
        # A second outcome of this claim in the same batch meets what this one writes.
        jobs[job.id] = Found(job.id, end.status, *job[2:])
        settled.append(_accepted(outcome.key, end))
    connection.executemany(SQL["finish"], ends)
    connection.executemany(SQL["add_error"], errors)
    # Only now: the jobs that are done have freed their keys.
    return tuple(
        answer._replace(
            spawned=enqueue(connection, now, list(map(spawned_of, outcome.spawned)))
        )
        if answer.accepted and outcome.spawned
        else answer
        for answer, outcome in zip(settled, outcomes, strict=True)
    )


def complete(
    executor: Executor, now: int, outcome: Outcome, *, progress: str | None
) -> tuple[int | None, ...]:
    """
    Write a success, and the last word of its progress, in its handler's transaction.

    Raises:
        ClaimLost: the claim doesn't hold (law 6).
    """
    if progress is not None:
        save(executor, now, outcome.key, state=None, progress=progress)
    (settled,) = finish(executor, now, [outcome])
    if not settled.accepted:
        raise ClaimLost(*outcome.key)
    return settled.spawned


def settled(
    executor: Executor, _now: int, keys: Sequence[ClaimKey]
) -> tuple[Fate, ...]:
    """Tell what became of claims; under the write lock no other transaction is open."""
    jobs = find(executor, {key.job_id for key in keys})
    return tuple(_fate(key, jobs.get(key.job_id)) for key in keys)


def _fate(key: ClaimKey, job: Found | None) -> Fate:
    # Only what has ended is deleted or pruned: it did so within a moment.
    if job is None:
        return Fate.SUCCEEDED
    if job.claims == key.claim and job.status is Status.SUCCEEDED:
        return Fate.SUCCEEDED
    if job.claims == key.claim and job.status is Status.RUNNING:
        return Fate.RUNNING
    return Fate.LOST


def _holds(outcome: Outcome, job: Found) -> bool:
    """Say whether a claim still holds its job (law 6), and as it was read (law 9)."""
    if job.status is not Status.RUNNING or job.claims != outcome.key.claim:
        return False
    read = outcome.leased_until
    return read is None or job.leased_until == rows.to_micros(read)


def _judge(outcome: Outcome, job: Found, now: int) -> End:
    """Decide what is written: what the outcome says, but for a cancel (law 21)."""
    status = outcome.status
    if job.cancel_requested_at is not None and status in _UNDER_A_CANCEL:
        status = Status.CANCELLED
    return End(
        status,
        now + rows.to_span(outcome.delay) if status is Status.PENDING else None,
        # The wall clock may have been set back since the start.
        now if job.started_at is None else max(now, job.started_at),
    )


def _accepted(key: ClaimKey, end: End) -> Settled:
    return Settled(
        key=key,
        accepted=True,
        status=end.status,
        claims=key.claim,
        run_at=rows.maybe_instant(end.run_at),
    )


def _refused(key: ClaimKey, job: Found | None) -> Settled:
    if job is None:
        return Settled(key=key, accepted=False, status=None, claims=None)
    return Settled(key=key, accepted=False, status=job.status, claims=job.claims)


def _row(outcome: Outcome, end: End, now: int) -> dict[str, object]:
    return {
        "id": outcome.key.job_id,
        "claim": outcome.key.claim,
        "status": end.status.value,
        "run_at": end.run_at,
        "finished_at": end.ended_at if end.status.is_final else None,
        "unstarted": outcome.unstarted,
        "failed": outcome.failed,
        "lost": outcome.lost,
        "fingerprint": None if outcome.error is None else fingerprint(outcome.error),
        "unrecoverable": end.status is Status.FAILED
        and outcome.error is not None
        and outcome.error.get("unrecoverable") is True,
        "result": outcome.result if end.status is Status.SUCCEEDED else None,
        "meta": rows.maybe_json(outcome.meta),
        "now": now,
    }


def _version(connection: Executor, worker: str | None) -> str | None:
    """Tell the version of the code that a worker runs, as it has registered."""
    found = connection.execute(SQL["version_of"], {"worker": worker}).fetchone()
    return None if found is None else found[0]


def _error(
    error: Mapping[str, JSON],
    outcome: Outcome,
    job: Found,
    end: End,
    version: str | None,
) -> dict[str, object]:
    """Complete an error by what the store knows of the attempt."""
    entry = {
        **error,
        "event": "lost" if outcome.lost else "failed" if outcome.failed else "released",
        "attempt": job.attempts,
        "worker": job.worker,
        "version": version,
        "started_at": None if job.started_at is None else rows.iso(job.started_at),
        "ended_at": rows.iso(end.ended_at),
    }
    return {
        "id": job.id,
        "entry": write_json(entry),
        "last_error": in_words(error)[:LAST_ERROR],
    }


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
    connection: Executor,
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
