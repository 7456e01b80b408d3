-- Adds a job as it was in another store, under its own id (law 20). Under the write
-- lock.
INSERT INTO rowlock_rows (
    id, run_at, expires_at, leased_until, cancel_requested_at, created_at, started_at,
    finished_at, updated_at, alone, abandoned, suspect, unrecoverable, key_freed,
    timeout, priority, claims, attempts, failures, losses, max_attempts, auto_replays,
    idempotency_for, status, queue, task, worker, idempotency_key, backoff, last_error,
    fingerprint, progress, meta, errors, state, result, payload
)
VALUES (
    :id, :run_at, :expires_at, :leased_until, :cancel_requested_at, :created_at,
    :started_at, :finished_at, :updated_at, :alone, :abandoned, :suspect,
    :unrecoverable, :key_freed, :timeout, :priority, :claims, :attempts, :failures,
    :losses, :max_attempts, :auto_replays, :idempotency_for, :status, :queue, :task,
    :worker, :idempotency_key, :backoff, :last_error, :fingerprint, :progress, :meta,
    :errors, :state, :result, :payload
);
