-- All jobs with all they have, to be copied, by id. Reads the whole table. Locks nothing.
SELECT
    id, run_at, expires_at, leased_until, cancel_requested_at, created_at, started_at,
    finished_at, updated_at, alone, abandoned, suspect, unrecoverable, key_freed,
    timeout, priority, claims, attempts, failures, losses, max_attempts, auto_replays,
    idempotency_for, status, queue, task, worker, idempotency_key, backoff, last_error,
    fingerprint, progress, meta, errors, state, result, payload
FROM rowlock_rows
ORDER BY id;
