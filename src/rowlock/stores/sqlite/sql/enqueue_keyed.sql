-- Adds one job with an idempotency key, unless another job of its task holds the key,
-- as it is unfinished or keeps its key for a while: then it answers no row (law 10).
-- Under the write lock. A + keeps a lent connection from converting a column by its
-- declared type, here as in all that runs on one. Needs the unique index
-- rowlock_held_keys, whose condition is repeated here.
INSERT INTO rowlock_rows (
    queue, task, payload, priority, run_at, expires_at, max_attempts, timeout, backoff,
    idempotency_key, idempotency_for, meta, created_at, updated_at
)
VALUES (
    :queue, :task, :payload, :priority, :run_at, :expires_at, :max_attempts, :timeout,
    :backoff, :idempotency_key, :idempotency_for, :meta, :now, :now
)
ON CONFLICT (task, idempotency_key)
WHERE idempotency_key IS NOT NULL
    AND (status IN ('pending', 'running') OR key_until IS NOT NULL)
DO NOTHING
RETURNING +id;
