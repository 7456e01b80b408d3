-- Adds one job without an idempotency key; always adds. Under the write lock ids
-- follow one another, so the last one tells all of a run (laws 1, 20).
INSERT INTO rowlock_rows (
    queue, task, payload, priority, run_at, expires_at, max_attempts, timeout, backoff,
    meta, created_at, updated_at
)
VALUES (
    :queue, :task, :payload, :priority, :run_at, :expires_at, :max_attempts, :timeout,
    :backoff, :meta, :now, :now
);
