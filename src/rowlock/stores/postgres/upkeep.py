"""Upkeep: what expires, what is pruned, and who is known to live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rowlock import _doctor
from rowlock._clock import Clock
from rowlock._store import Pruned, Retention, TaskInfo, WorkerInfo
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.errors import NoPartition
from rowlock.stores.postgres.retention import past_days
from rowlock.stores.postgres.sessions import Row, Session


class Upkept(NamedTuple):
    """What was pruned, and the days of the history that are to be dropped."""

    pruned: Pruned
    days: frozenset[str]


async def prune(session: Session, retention: Retention, *, limit: int) -> Upkept:
    """
    Expire what was never started in time, delete what finished long ago (law 12).

    A past day with few jobs is emptied before it is dropped, so that they are counted.
    """
    await session.run("make_partitions")
    try:
        async with session.transaction():
            return await _prune(session, retention, limit)
    except NoPartition:
        for (day,) in await session.run("left_days"):
            await session.run("make_partition", day=day.isoformat())
        async with session.transaction():
            return await _prune(session, retention, limit)


async def _prune(session: Session, retention: Retention, limit: int) -> Upkept:
    freed = await _free_keys(session, retention, limit)
    expired = await session.run("expire", limit=str(limit))
    succeeded = str(rows.micros(retention.succeeded))
    cancelled = str(rows.micros(retention.cancelled))
    gone: list[Row] = await session.run(
        "prune_left", succeeded=succeeded, cancelled=cancelled, limit=str(limit)
    )
    await session.run("move_left", limit=str(limit))
    gone += await session.run(
        "prune_failed",
        failed=str(rows.micros(retention.failed)),
        limit=str(limit - len(gone)),
    )
    days = await past_days(session, retention)
    whole = [day for day in days if day.is_dropped_whole]
    since = max((day.ends_at for day in whole), default=None)
    if len(gone) < limit:
        gone += await session.run(
            "prune_history",
            succeeded=succeeded,
            cancelled=cancelled,
            since=None if since is None else since.isoformat(),
            limit=str(limit - len(gone)),
        )
    await session.run("forget_workers")
    await session.run("forget_pauses")
    await session.run("forget_rules")
    return Upkept(
        Pruned(expired=len(expired), deleted=len(gone), freed=freed),
        frozenset(day.name for day in (days if len(gone) < limit else whole)),
    )


async def _free_keys(session: Session, retention: Retention, limit: int) -> int:
    """Free keys of jobs that kept them for long enough, and forget those of `once`."""
    freed = await session.run("free_keys", limit=str(limit))
    forgotten = await session.run(
        "forget_once",
        kept=str(rows.micros(retention.once)),
        limit=str(limit - len(freed)),
    )
    return len(freed) + len(forgotten)


async def register(
    session: Session,
    worker: WorkerInfo | None,
    tasks: Sequence[TaskInfo],
    clock: Clock,
    *,
    stopped: bool,
) -> None:
    """Show a worker and its tasks to operators, or that it has stopped."""
    async with session.transaction():
        if worker is not None:
            await _register(session, worker, clock, stopped=stopped)
        if tasks:
            await session.run(
                "add_tasks",
                names=rows.texts([task.name for task in tasks]),
                queues=rows.texts([task.queue for task in tasks]),
                defaults=rows.texts([rows.to_json(task.defaults) for task in tasks]),
            )


async def _register(
    session: Session, worker: WorkerInfo, clock: Clock, *, stopped: bool
) -> None:
    if stopped:
        await session.run("drop_worker", id=worker.id)
        return
    asked_at = clock.now()
    ((servers,),) = await session.run("clock")
    skew = _doctor.skew(asked_at, servers, clock.now())
    await session.run(
        "add_worker",
        id=worker.id,
        host=worker.host,
        pid=str(worker.pid),
        version=worker.version,
        rowlock=worker.rowlock,
        tasks=rows.texts(worker.tasks),
        queues=None if worker.queues is None else rows.texts(worker.queues),
        concurrency=str(worker.concurrency),
        lease=str(rows.micros(worker.lease)),
        gives_way=str(worker.gives_way),
        stuck=rows.numbers(worker.stuck),
        clock_skew=str(rows.micros(skew)),
    )
