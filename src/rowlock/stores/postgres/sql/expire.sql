-- Cancels pending jobs that were not started in time, the earliest first, and moves
-- them to the history (laws 12, 13). None keeps its key: nothing has run (law 10).
-- Needs live_expiring. Locks the rows, and passes by those that are locked.
WITH gone AS (
    DELETE FROM {schema}.live
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.live
        WHERE status = 'pending' AND attempts = 0 AND expires_at IS NOT NULL
            AND expires_at <= {now}
        ORDER BY expires_at
        LIMIT %(limit)s::bigint
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
)
INSERT INTO {schema}.history (
    id, run_at, expires_at, created_at, finished_at, updated_at, timeout, priority,
    claims, attempts, failures, losses, max_attempts, suspect, status, queue, task,
    idempotency_key, idempotency_for, key_freed, backoff, last_error, progress,
    meta, errors, state, payload
)
SELECT
    id, run_at, expires_at, created_at, {now}, {now}, timeout, priority, claims,
    attempts, failures, losses, max_attempts, suspect, 'cancelled', queue, task,
    idempotency_key, idempotency_for, true, backoff, last_error, progress, meta,
    {schema}.noted(
        errors, jsonb_build_object('event', 'expired', 'at', {schema}.iso({now}))
    ),
    state, payload
FROM gone
RETURNING id;
