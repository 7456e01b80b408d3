-- Cancels the pending job that holds a key of a task, if it was not started in time; no
-- row is a holder that may still run, or none (laws 10, 12). Needs
-- rowlock_unfinished_keys, whose condition is repeated here. Under the write lock.
UPDATE rowlock_rows INDEXED BY rowlock_unfinished_keys
SET status = 'cancelled', finished_at = :now, updated_at = :now
WHERE task = :task AND idempotency_key = :idempotency_key
    AND status IN ('pending', 'running') AND status = 'pending'
    AND attempts = 0 AND expires_at <= :now
RETURNING id;
