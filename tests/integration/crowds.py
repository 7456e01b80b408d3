"""Tables full of jobs, as a planner or a claim may find them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]

# What the server counts and removes by itself would come at any moment.
_UNATTENDED = """
    ALTER TABLE rowlock.live SET (autovacuum_enabled = false);
    DO $$
    DECLARE part regclass;
    BEGIN
        PERFORM rowlock.make_partition(current_date - ago)
        FROM generate_series(0, 7) AS ago;
        FOR part IN
            SELECT inhrelid FROM pg_inherits
            WHERE inhparent = 'rowlock.history'::regclass
        LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', part);
        END LOOP;
    END $$;
"""
# Many of each kind, and many alike, as bulk inserts and claims leave them.
_CROWD = """
    INSERT INTO rowlock.live (
        status, queue, task, priority, run_at, created_at, updated_at, max_attempts,
        payload, claims, attempts, worker, leased_until, finished_at, expires_at,
        idempotency_key, idempotency_for
    )
    SELECT
        status, CASE WHEN kind = 9 THEN 'stale' ELSE 'default' END,
        CASE WHEN n %% 2 = 0 THEN 'mail' ELSE 'report' END, n %% 3,
        at, at, at, 3, '{}', (status <> 'pending')::integer,
        (status <> 'pending')::integer,
        CASE WHEN status = 'running' THEN 'w-' || n / 500 END,
        CASE WHEN status = 'running' THEN at END,
        CASE WHEN status IN ('failed', 'succeeded') THEN at END,
        CASE WHEN kind = 9 THEN at END,
        CASE WHEN n %% 5 < 2 THEN 'key-' || n END,
        -- Kept for good, and for long enough.
        CASE WHEN n %% 5 < 2 AND n %% 3 = 0 THEN '9999 days'::interval
            WHEN n %% 5 < 2 AND n %% 3 = 1 THEN '1 hour'::interval END
    FROM generate_series(1, %(rows)s) AS n
    CROSS JOIN LATERAL (SELECT n %% 10 AS kind) AS chosen
    CROSS JOIN LATERAL (
        SELECT
            now() - n / 500 * interval '4 hours'
                + (kind = 4)::integer * interval '9999 hours' AS at,
            CASE WHEN kind < 5 OR kind = 9 THEN 'pending' WHEN kind < 7 THEN 'running'
                WHEN n %% 1000 = 7 THEN 'succeeded' ELSE 'failed' END AS status
    ) AS made
"""
# In the afternoons of the five days before today.
_FINISHED = """
    INSERT INTO rowlock.history (
        id, status, queue, task, priority, run_at, created_at, updated_at, max_attempts,
        payload, claims, attempts, started_at, finished_at
    )
    SELECT
        nextval('rowlock.ids'),
        CASE WHEN n %% 2 = 0 THEN 'succeeded' ELSE 'cancelled' END,
        'default', 'mail', 0, at, at, at, 3, '{}', 1, 1, at, at
    FROM generate_series(1, %(rows)s) AS n
    CROSS JOIN LATERAL (
        SELECT date_trunc('day', now(), 'UTC') - (1 + n %% 5) * interval '1 day'
            + interval '12 hours' * (1 + n::float / %(rows)s) AS at
    ) AS made
"""

# A backlog as a bulk insert leaves it: of one instant.
_BACKLOG = """
    INSERT INTO rowlock.live (
        queue, task, priority, run_at, created_at, updated_at, max_attempts, payload
    )
    SELECT 'default', %(task)s, %(priority)s, at, now(), now(), 3, '{}'
    FROM generate_series(1, %(rows)s)
    CROSS JOIN (SELECT now() + %(ahead)s::interval AS at) AS due
"""


def leave_unattended(admin: Connection) -> None:
    """Make partitions for a week back, and keep the server's own upkeep away."""
    admin.execute(_UNATTENDED)


def oldest_morning() -> datetime:
    """Tell an instant before all of the history, in the same day as the oldest."""
    today = datetime.now(UTC).replace(hour=6, minute=0, second=0, microsecond=0)
    return today - timedelta(days=5)


def fill(admin: Connection, rows: int) -> None:
    """Put so many jobs into the table of unfinished ones, and into the history."""
    admin.execute(_CROWD, {"rows": rows})
    admin.execute(_FINISHED, {"rows": rows})


def add_backlog(
    admin: Connection,
    rows: int,
    *,
    ahead: str,
    task: str = "mail",
    priority: int = 0,
) -> None:
    """Have so many jobs wait, due `ahead` of now."""
    values = {"rows": rows, "task": task, "priority": priority, "ahead": ahead}
    admin.execute(_BACKLOG, values)
