-- Moves finished jobs that stayed behind to the history, the oldest first, those that
-- keep a key left alone. Needs live_left. Locks the rows, and passes by those that are
-- locked.
WITH gone AS (
    DELETE FROM {schema}.live
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.live
        WHERE status IN ('succeeded', 'cancelled') AND key_until IS NULL
        ORDER BY finished_at
        LIMIT %(limit)s::bigint
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
)
INSERT INTO {schema}.history (
    id, run_at, expires_at, cancel_requested_at, created_at, started_at, finished_at,
    updated_at, timeout, priority, claims, attempts, failures, losses, max_attempts,
    auto_replays, suspect, status, queue, task, worker, idempotency_key,
    idempotency_for, key_freed, backoff, last_error, progress, meta, errors, state,
    result, payload
)
SELECT
    id, run_at, expires_at, cancel_requested_at, created_at, started_at, finished_at,
    updated_at, timeout, priority, claims, attempts, failures, losses, max_attempts,
    auto_replays, suspect, status, queue, task, worker, idempotency_key,
    idempotency_for, key_freed, backoff, last_error, progress, meta, errors, state,
    result, payload
FROM gone
RETURNING id;
