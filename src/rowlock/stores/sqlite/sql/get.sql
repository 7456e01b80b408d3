-- These jobs, in no order; missing ids are left out. Locks nothing.
SELECT
    id, queue, task, status, priority, run_at, expires_at, claims, attempts, failures,
    losses, max_attempts, timeout, backoff, idempotency_key, leased_until, worker,
    cancel_requested_at, last_error, created_at, started_at, finished_at, updated_at,
    progress, meta, errors, state, result, payload, fingerprint, key_until
FROM rowlock_rows
WHERE id IN (SELECT value FROM json_each(:ids));
