"""Reading jobs and figures; each is one snapshot."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from rowlock._job import Status
from rowlock._store import Filter, Page, QueueStats, Stats, TaskStats
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    from rowlock._job import Claim, Job

# Statuses whose jobs are few beside those that succeeded: these are read from an index.
_LISTINGS = {
    Status.PENDING: "list_pending",
    Status.RUNNING: "list_running",
    Status.FAILED: "list_finished",
    Status.CANCELLED: "list_finished",
}


class Found(NamedTuple):
    """A job as it stands before a verb."""

    id: int
    status: Status
    claims: int
    attempts: int
    worker: str | None
    started_at: int | None
    cancel_requested_at: int | None
    task: str
    idempotency_key: str | None
    leased_until: int | None
    auto_replays: int


def find(connection: sqlite3.Connection, ids: Collection[int]) -> dict[int, Found]:
    """Tell how these jobs stand, by id; under the write lock it stays so."""
    found = connection.execute(SQL["find"], {"ids": json.dumps(list(ids))}).fetchall()
    return {row[0]: Found(row[0], Status(row[1]), *row[2:]) for row in found}


def get(
    connection: sqlite3.Connection, _now: int, ids: Sequence[int]
) -> tuple[Job, ...]:
    """Read jobs by id, in the order given; missing ids are left out."""
    found = connection.execute(SQL["get"], {"ids": json.dumps(list(ids))}).fetchall()
    by_id = {row[0]: row for row in found}
    return tuple(rows.job(by_id[job_id]) for job_id in ids if job_id in by_id)


def list_jobs(
    connection: sqlite3.Connection,
    now: int,
    where: Filter,
    *,
    after: int | None,
    limit: int,
) -> Page:
    """Read a page of jobs that fit, newest first."""
    # One more tells whether another page follows.
    found = search(connection, now, where, after=after, limit=limit + 1)
    ids = found[:limit]
    return Page(
        jobs=get(connection, now, ids),
        after=ids[-1] if ids and len(found) > limit else None,
    )


def search(
    connection: sqlite3.Connection,
    now: int,
    where: Filter,
    *,
    after: int | None,
    limit: int,
) -> tuple[int, ...]:
    """Give the ids of jobs that fit, newest first, and read none of them."""
    found = connection.execute(
        SQL[_listing(where)],
        {
            "ids": None if where.ids is None else json.dumps(where.ids),
            "status": None if where.status is None else where.status.value,
            "task": where.task,
            "queue": where.queue,
            "idempotency_key": where.idempotency_key,
            "fingerprint": where.fingerprint,
            "created_before": (
                None
                if where.older_than is None
                else now - rows.to_span(where.older_than)
            ),
            "after": after,
            "limit": limit,
        },
    ).fetchall()
    return tuple(job_id for (job_id,) in found)


def _listing(where: Filter) -> str:
    if where.ids is not None:
        return "list_by_ids"
    if where.idempotency_key is not None:
        return "list_by_key"
    if where.status is None:
        return "list"
    return _LISTINGS.get(where.status, "list")


def lost(
    connection: sqlite3.Connection, now: int, limit: int, *, worker: str | None
) -> tuple[Claim, ...]:
    """Read claims whose lease is over, or all of a worker (law 9)."""
    operation = "lost" if worker is None else "lost_of_worker"
    found = connection.execute(
        SQL[operation], {"now": now, "limit": limit, "worker": worker}
    ).fetchall()
    return tuple(rows.claim(row) for row in found)


def stats(connection: sqlite3.Connection, now: int) -> Stats:
    """Count jobs by queue and status, and name live workers and pauses."""
    counts: defaultdict[str, dict[Status, int]] = defaultdict(dict)
    due: dict[str, tuple[int, int | None]] = {}
    for queue, status, count, n_due, oldest in connection.execute(
        SQL["counts"], {"now": now}
    ).fetchall():
        counts[queue][Status(status)] = count
        if status == Status.PENDING:
            due[queue] = (n_due, oldest)
    queues = []
    for queue in sorted(counts):
        n_due, oldest = due.get(queue, (0, None))
        queues.append(
            QueueStats(
                queue=queue,
                counts=counts[queue],
                due=n_due,
                oldest_due=rows.maybe_instant(oldest),
            )
        )
    workers = connection.execute(SQL["live_workers"], {"now": now}).fetchall()
    pauses = connection.execute(SQL["pausing"], {"now": now}).fetchall()
    tasks = connection.execute(SQL["due_tasks"], {"now": now}).fetchall()
    return Stats(
        now=rows.instant(now),
        queues=tuple(queues),
        workers=tuple(rows.worker(row) for row in workers),
        pauses=tuple(rows.pause(row) for row in pauses),
        tasks=tuple(TaskStats(queue=row[0], task=row[1], due=row[2]) for row in tasks),
    )
