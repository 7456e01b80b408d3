-- Cancels the pending job that holds a key of a task, if it was not started in time; no
-- row is a holder that may still run, or none (laws 10, 12). Needs
-- rowlock_held_keys, whose condition is repeated here. Under the write lock.
UPDATE rowlock_rows INDEXED BY rowlock_held_keys
SET status = 'cancelled', finished_at = :now, key_freed = 1, updated_at = :now
WHERE task = :task AND idempotency_key = :idempotency_key
    AND idempotency_key IS NOT NULL
    AND (status IN ('pending', 'running') OR key_until IS NOT NULL)
    AND status = 'pending'
    AND attempts = 0 AND expires_at <= :now
RETURNING +id;
