"""Upkeep: what expires, what is pruned, and who is known to live."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rowlock._store import Pruned, Retention
from rowlock.stores._json import write_json
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.expire import expire
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from rowlock._store import TaskInfo, WorkerInfo

_FORGOTTEN_AFTER = timedelta(days=1)


def prune(
    connection: sqlite3.Connection, now: int, retention: Retention, *, limit: int
) -> Pruned:
    """Expire what was never started in time, delete what finished long ago (law 12)."""
    freed = connection.execute(SQL["free_keys"], {"now": now, "limit": limit}).rowcount
    expired = expire(connection, now, limit)
    deleted = connection.execute(
        SQL["prune"],
        {
            "succeeded": now - rows.to_span(retention.succeeded),
            "cancelled": now - rows.to_span(retention.cancelled),
            "failed": now - rows.to_span(retention.failed),
            "limit": limit,
        },
    ).rowcount
    connection.execute(
        SQL["forget_workers"], {"since": now - rows.to_span(_FORGOTTEN_AFTER)}
    )
    once = connection.execute(
        SQL["forget_once"],
        {"since": now - rows.to_span(retention.once), "limit": limit - freed},
    ).rowcount
    connection.execute(SQL["forget_pauses"], {"now": now})
    connection.execute(
        SQL["forget_rules"], {"since": now - rows.to_span(_FORGOTTEN_AFTER)}
    )
    return Pruned(expired=expired, deleted=deleted, freed=freed + once)


def register(
    connection: sqlite3.Connection,
    now: int,
    worker: WorkerInfo | None,
    tasks: Sequence[TaskInfo],
    *,
    stopped: bool,
) -> None:
    """Show a worker and its tasks to operators, or that it has stopped."""
    if worker is not None:
        _register(connection, now, worker, stopped=stopped)
    connection.executemany(
        SQL["add_task"],
        [
            {
                "name": task.name,
                "queue": task.queue,
                "defaults": write_json(task.defaults),
                "now": now,
            }
            for task in tasks
        ],
    )


def _register(
    connection: sqlite3.Connection, now: int, worker: WorkerInfo, *, stopped: bool
) -> None:
    if stopped:
        connection.execute(SQL["drop_worker"], {"id": worker.id})
        return
    connection.execute(
        SQL["add_worker"],
        {
            "id": worker.id,
            "host": worker.host,
            "pid": worker.pid,
            "version": worker.version,
            "rowlock": worker.rowlock,
            "tasks": write_json(list(worker.tasks)),
            "queues": (
                None if worker.queues is None else write_json(list(worker.queues))
            ),
            "concurrency": worker.concurrency,
            "lease": rows.to_span(worker.lease),
            "gives_way": worker.gives_way,
            "stuck": write_json(list(worker.stuck)),
            "now": now,
        },
    )
