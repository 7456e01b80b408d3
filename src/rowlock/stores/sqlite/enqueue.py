"""Adding jobs: all of them or none, on any connection whose transaction is open."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from rowlock._job import Status
from rowlock._keys import conflict, is_same
from rowlock.stores._json import write_json
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.expire import expire_holder
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock._job import NewJob
    from rowlock.stores.sqlite.statements import Executor


_KEY = "idempotency_key"


def enqueue(
    executor: Executor, now: int, jobs: Sequence[NewJob]
) -> tuple[int | None, ...]:
    """
    Insert jobs in the order given; None for a duplicate (laws 1, 10).

    Raises:
        KeyConflict: another job is in the way of one of these; the caller rolls back.
    """
    ids: list[int | None] = []
    for is_keyed, run in groupby(jobs, lambda job: job.idempotency_key is not None):
        listed = list(run)
        found = [_row(job, now) for job in listed]
        if is_keyed:
            for job, row in zip(listed, found, strict=True):
                ids.append(_insert_keyed(executor, now, job, row, ids))
        else:
            executor.executemany(SQL["enqueue"], found)
            (last,) = executor.execute(SQL["last_id"]).fetchone()
            ids.extend(range(last - len(found) + 1, last + 1))
    return tuple(ids)


def _insert_keyed(
    executor: Executor,
    now: int,
    job: NewJob,
    row: dict[str, Any],
    before: Sequence[int | None],
) -> int | None:
    """Insert a job, or find out what becomes of it where another holds its key."""
    found = executor.execute(SQL["enqueue_keyed"], row).fetchone()
    # None must mean that a job of this key will run, or has: not one that is only to
    # expire, nor one that has kept its key for long enough.
    if found is None and (
        expire_holder(executor, now, task=job.task, idempotency_key=row[_KEY])
        or executor.execute(SQL["free_key"], row).fetchone()
    ):
        found = executor.execute(SQL["enqueue_keyed"], row).fetchone()
    if found is not None:
        job_id: int = found[0]
        return job_id
    if job.on_conflict != "skip":
        job_id, status, payload = executor.execute(SQL["holder"], row).fetchone()
        same = is_same(payload, job.payload)
        if job.on_conflict == "replace" and status == Status.PENDING:
            executor.execute(SQL["replace"], {**row, "id": job_id, "is_same": same})
        elif job.on_conflict == "raise" and not same:
            # One of the same call isn't there any more.
            raise conflict(job, None if job_id in before else job_id)
    return None


def _row(job: NewJob, now: int) -> dict[str, Any]:
    return {
        "queue": job.queue,
        "task": job.task,
        "payload": job.payload,
        "priority": job.priority,
        "run_at": (
            now + rows.to_span(job.delay)
            if job.run_at is None
            else rows.to_micros(job.run_at)
        ),
        "expires_at": None
        if job.expires_at is None
        else rows.to_micros(job.expires_at),
        "max_attempts": job.max_attempts,
        "timeout": job.timeout,
        "backoff": rows.maybe_json(job.backoff),
        _KEY: job.idempotency_key,
        "idempotency_for": None
        if job.idempotency_for is None
        else rows.to_span(job.idempotency_for),
        "meta": "{}" if job.meta is None else write_json(job.meta),
        "now": now,
    }
