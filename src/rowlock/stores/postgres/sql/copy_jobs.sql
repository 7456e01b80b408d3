-- Opens a cursor on all jobs with all they have, to be copied, in no order; copy_next.sql
-- reads on. Reads both relations whole. Locks nothing.
DECLARE copied NO SCROLL CURSOR FOR
SELECT
    id, run_at, expires_at, leased_until, cancel_requested_at, created_at, started_at,
    finished_at, updated_at, alone, abandoned, suspect, unrecoverable, key_freed,
    timeout, priority, claims, attempts, failures, losses, max_attempts, auto_replays,
    idempotency_for, status, queue, task, worker, idempotency_key, backoff, last_error,
    fingerprint, progress, meta, errors, state, result, payload
FROM {schema}.live
UNION ALL
SELECT
    id, run_at, expires_at, leased_until, cancel_requested_at, created_at, started_at,
    finished_at, updated_at, alone, abandoned, suspect, unrecoverable, key_freed,
    timeout, priority, claims, attempts, failures, losses, max_attempts, auto_replays,
    idempotency_for, status, queue, task, worker, idempotency_key, backoff, last_error,
    fingerprint, progress, meta, errors, state, result, payload
FROM {schema}.history;
