"""Expiring: a job that was not started by its `expires_at` is cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.stores._json import write_json
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from rowlock.stores.sqlite.statements import Executor


def expire(connection: sqlite3.Connection, now: int, limit: int) -> int:
    """Expire the jobs whose time is over the longest; tell how many were."""
    expired = connection.execute(SQL["expire"], {"now": now, "limit": limit}).fetchall()
    _note(connection, now, expired)
    return len(expired)


def expire_holder(
    executor: Executor, now: int, *, task: str, idempotency_key: str
) -> bool:
    """Free a key of a job that will never run; tell whether it is free now."""
    expired = executor.execute(
        SQL["expire_holder"],
        {"task": task, "idempotency_key": idempotency_key, "now": now},
    ).fetchall()
    _note(executor, now, expired)
    return bool(expired)


def _note(executor: Executor, now: int, expired: Iterable[tuple[int]]) -> None:
    entry = write_json({"event": "expired", "at": rows.iso(now)})
    executor.executemany(
        SQL["add_error"],
        [{"id": job_id, "entry": entry, "last_error": None} for (job_id,) in expired],
    )
