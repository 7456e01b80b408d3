-- The other job that holds a key of a task, if any (law 10). Needs rowlock_held_keys.
-- Under the write lock.
SELECT id FROM rowlock_rows INDEXED BY rowlock_held_keys
WHERE task = :task AND idempotency_key = :idempotency_key
    AND idempotency_key IS NOT NULL AND id <> :job_id
    AND (status IN ('pending', 'running') OR key_until IS NOT NULL);
