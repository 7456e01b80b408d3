-- Adds one job with an idempotency key, unless an unfinished job of its task holds
-- the key: then it answers no row (law 10). Under the write lock. Needs the unique
-- index rowlock_unfinished_keys, whose condition is repeated here.
INSERT INTO rowlock_rows (
    queue, task, payload, priority, run_at, expires_at, max_attempts, timeout, backoff,
    idempotency_key, meta, created_at, updated_at
)
VALUES (
    :queue, :task, :payload, :priority, :run_at, :expires_at, :max_attempts, :timeout,
    :backoff, :idempotency_key, :meta, :now, :now
)
ON CONFLICT (task, idempotency_key)
WHERE idempotency_key IS NOT NULL AND status IN ('pending', 'running')
DO NOTHING
RETURNING id;
