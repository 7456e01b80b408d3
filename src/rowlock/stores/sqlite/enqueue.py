"""Adding jobs: all of them or none, on any connection whose transaction is open."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from rowlock.stores._json import write_json
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.expire import expire_holder
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock._job import NewJob
    from rowlock.stores.sqlite.statements import Executor


def enqueue(
    executor: Executor, now: int, jobs: Sequence[NewJob]
) -> tuple[int | None, ...]:
    """Insert jobs in the order given; None for a duplicate (laws 1, 10)."""
    ids: list[int | None] = []
    for is_keyed, run in groupby(jobs, lambda job: job.idempotency_key is not None):
        found = [_row(job, now) for job in run]
        if is_keyed:
            ids.extend(_insert_keyed(executor, now, row) for row in found)
        else:
            executor.executemany(SQL["enqueue"], found)
            (last,) = executor.execute(SQL["last_id"]).fetchone()
            ids.extend(range(last - len(found) + 1, last + 1))
    return tuple(ids)


def _insert_keyed(executor: Executor, now: int, row: dict[str, Any]) -> int | None:
    found = executor.execute(SQL["enqueue_keyed"], row).fetchone()
    # None must mean that a job of this key will run, not one that is only to expire.
    if found is None and expire_holder(
        executor, now, task=row["task"], idempotency_key=row["idempotency_key"]
    ):
        found = executor.execute(SQL["enqueue_keyed"], row).fetchone()
    return None if found is None else found[0]


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
        "idempotency_key": job.idempotency_key,
        "meta": "{}" if job.meta is None else write_json(job.meta),
        "now": now,
    }
