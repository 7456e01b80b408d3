-- Adds jobs as they were in another store, under their own ids (law 20): those that
-- aren't over, dead letters, and those that keep their key. Under the locks of
-- lock_target.sql.
COPY {schema}.live (
    id, run_at, expires_at, leased_until, cancel_requested_at, created_at, started_at,
    finished_at, updated_at, alone, abandoned, suspect, unrecoverable, key_freed,
    timeout, priority, claims, attempts, failures, losses, max_attempts, auto_replays,
    idempotency_for, status, queue, task, worker, idempotency_key, backoff, last_error,
    fingerprint, progress, meta, errors, state, result, payload
) FROM STDIN;
