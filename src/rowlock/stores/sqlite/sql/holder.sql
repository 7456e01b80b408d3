-- The job that holds a key of a task, with what tells whether another call means the same
-- (law 10). Needs rowlock_held_keys, whose condition is repeated here. Under the write
-- lock.
SELECT +id, +status, +payload FROM rowlock_rows INDEXED BY rowlock_held_keys
WHERE task = :task AND idempotency_key = :idempotency_key
    AND idempotency_key IS NOT NULL
    AND (status IN ('pending', 'running') OR key_until IS NOT NULL);
