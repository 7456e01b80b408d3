-- Adds jobs as they were in another store, under their own ids (law 20): those that
-- succeeded or were cancelled and keep no key, on a day that has a partition. Under the
-- locks of lock_target.sql.
COPY {schema}.history (
    id, run_at, expires_at, leased_until, cancel_requested_at, created_at, started_at,
    finished_at, updated_at, alone, abandoned, suspect, unrecoverable, key_freed,
    timeout, priority, claims, attempts, failures, losses, max_attempts, auto_replays,
    idempotency_for, status, queue, task, worker, idempotency_key, backoff, last_error,
    fingerprint, progress, meta, errors, state, result, payload
) FROM STDIN;
