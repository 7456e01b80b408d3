"""Reading jobs; each is one snapshot."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from heapq import merge
from operator import itemgetter

from rowlock._filter import AGES, ANY, PAYLOADS_LOOKED_AT, TEXTS, Filter
from rowlock._job import Claim, ClaimKey, Job, Status
from rowlock._store import Matches, Page
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.sessions import Row, Session

# Statuses of jobs that may be in the history; any may be among the live ones, where a
# caller's transaction completed a job and met no partition.
_IN_HISTORY = frozenset({Status.SUCCEEDED, Status.CANCELLED})


async def get(session: Session, ids: Sequence[int]) -> tuple[Job, ...]:
    """Read jobs by id, in the order given; missing ids are left out."""
    return _jobs(ids, await session.run("get", ids=rows.numbers(ids)))


def _jobs(ids: Sequence[int], found: Sequence[Row]) -> tuple[Job, ...]:
    by_id = {row[0]: row for row in found}
    return tuple(rows.job(by_id[job_id]) for job_id in ids if job_id in by_id)


async def cancel_requested(
    session: Session, keys: Collection[ClaimKey]
) -> frozenset[ClaimKey]:
    """Tell which of these claims were asked to cancel."""
    found = await session.run(
        "cancel_requested",
        ids=rows.numbers([key.job_id for key in keys]),
        claims=rows.numbers([key.claim for key in keys]),
    )
    return frozenset(ClaimKey(*row) for row in found)


async def list_jobs(
    session: Session, where: Filter, *, after: int | None, limit: int
) -> Page:
    """Read a page of jobs that fit, newest first."""
    async with session.reading():
        # One more tells whether another page follows.
        found, is_cut = await _search(session, where, after, limit + 1)
        ids = found[:limit]
        read = await session.run("get", ids=rows.numbers(ids))
    # Outside: a transaction of ours that stands still is ended.
    jobs = _jobs(ids, read)
    last = jobs[-1].id if jobs and len(found) > limit else None
    return Page(jobs=jobs, after=last, is_cut=is_cut)


async def search(
    session: Session, where: Filter, *, after: int | None, limit: int
) -> Matches:
    """Give the ids of jobs that fit, newest first, and read none of them."""
    async with session.reading():
        return await _search(session, where, after, limit)


async def _search(
    session: Session, where: Filter, after: int | None, limit: int
) -> Matches:
    if where.payload is None:
        return Matches(await _fitting(session, where, after, limit))
    looked_at = await _fitting(session, where, None, PAYLOADS_LOOKED_AT + 1)
    chosen = [i for i in looked_at[:PAYLOADS_LOOKED_AT] if after is None or i < after]
    found = await session.run(
        "match", ids=rows.numbers(chosen), fields=json.dumps(where.payload)
    )
    ids = sorted((job_id for (job_id,) in found), reverse=True)[:limit]
    return Matches(tuple(ids), is_cut=len(looked_at) > PAYLOADS_LOOKED_AT)


async def _fitting(
    session: Session, where: Filter, after: int | None, limit: int
) -> tuple[int, ...]:
    """Search by all but the payload."""
    values = {
        "ids": None if where.ids is None else rows.numbers(where.ids),
        **{name: getattr(where, name) for name in TEXTS},
        "status": where.status,
        "after": None if after is None else str(after),
        "limit": str(limit),
    }
    for name in AGES:
        age = getattr(where, name)
        values[name] = None if age is None else str(rows.micros(age))
    for name in ("priority", "attempts"):
        for end, value in zip(
            ("least", "most"), getattr(where, name) or ANY, strict=True
        ):
            values[f"{end}_{name}"] = None if value is None else str(value)
    found = await session.run("search_live", **values)
    is_maybe_there = where.status is None or where.status in _IN_HISTORY
    # What fits a fingerprint is a dead letter, or was one.
    if is_maybe_there and where.fingerprint is None:
        older = await session.run("search_history", **values)
        found = list(merge(found, older, key=itemgetter(0), reverse=True))[:limit]
    return tuple(job_id for (job_id,) in found)


async def lost(
    session: Session, limit: int, *, worker: str | None
) -> tuple[Claim, ...]:
    """Read claims whose lease is over, or all of a worker (law 9)."""
    if worker is None:
        found = await session.run("lost", limit=str(limit))
    else:
        found = await session.run("lost_of_worker", limit=str(limit), worker=worker)
    return tuple(rows.claim(row) for row in found)
