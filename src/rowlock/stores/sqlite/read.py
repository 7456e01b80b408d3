"""Reading jobs; each is one snapshot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from rowlock._filter import ANY, PAYLOADS_LOOKED_AT, TEXTS, Filter
from rowlock._job import ClaimKey, Status
from rowlock._store import Matches, Page
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    from rowlock._job import Claim, Job
    from rowlock.stores.sqlite.statements import Executor

# Statuses whose jobs are few beside those that succeeded: these are read from an index.
_LISTINGS = {
    Status.PENDING: "list_pending",
    Status.RUNNING: "list_running",
    Status.FAILED: "list_finished",
    Status.CANCELLED: "list_finished",
}

# The instants that an age is from the store's now.
_BOUNDS = {
    "older_than": "created_before",
    "younger_than": "created_after",
    "finished_older_than": "finished_before",
    "finished_younger_than": "finished_after",
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


def find(connection: Executor, ids: Collection[int]) -> dict[int, Found]:
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


def cancel_requested(
    connection: sqlite3.Connection, _now: int, keys: Collection[ClaimKey]
) -> frozenset[ClaimKey]:
    """Tell which of these claims were asked to cancel."""
    ids = json.dumps([key.job_id for key in keys])
    found = connection.execute(SQL["cancel_requested"], {"ids": ids})
    return frozenset(keys) & {ClaimKey(*row) for row in found}


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
    found, is_cut = search(connection, now, where, after=after, limit=limit + 1)
    ids = found[:limit]
    return Page(
        jobs=get(connection, now, ids),
        after=ids[-1] if ids and len(found) > limit else None,
        is_cut=is_cut,
    )


def search(
    connection: sqlite3.Connection,
    now: int,
    where: Filter,
    *,
    after: int | None,
    limit: int,
) -> Matches:
    """Give the ids of jobs that fit, newest first, and read none of them."""
    if where.payload is None:
        return Matches(_fitting(connection, now, where, after, limit))
    looked_at = _fitting(connection, now, where, None, PAYLOADS_LOOKED_AT + 1)
    chosen = [i for i in looked_at[:PAYLOADS_LOOKED_AT] if after is None or i < after]
    found = connection.execute(
        SQL["match"], {"ids": json.dumps(chosen), "fields": json.dumps(where.payload)}
    ).fetchmany(limit)
    ids = tuple(job_id for (job_id,) in found)
    return Matches(ids, is_cut=len(looked_at) > PAYLOADS_LOOKED_AT)


def _fitting(
    connection: sqlite3.Connection,
    now: int,
    where: Filter,
    after: int | None,
    limit: int,
) -> tuple[int, ...]:
    """Search by all but the payload."""
    values: dict[str, object] = {
        "ids": None if where.ids is None else json.dumps(where.ids),
        **{name: getattr(where, name) for name in TEXTS},
        "status": None if where.status is None else where.status.value,
        "after": after,
        "limit": limit,
    }
    for name, bound in _BOUNDS.items():
        age = getattr(where, name)
        values[bound] = None if age is None else now - rows.to_span(age)
    for name in ("priority", "attempts"):
        least, most = getattr(where, name) or ANY
        values |= {f"least_{name}": least, f"most_{name}": most}
    found = connection.execute(SQL[_listing(where)], values).fetchall()
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
