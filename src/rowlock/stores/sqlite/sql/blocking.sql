-- The unfinished job that holds a key of a task, if any (law 10). Needs
-- rowlock_unfinished_keys. Under the write lock.
SELECT id FROM rowlock_rows INDEXED BY rowlock_unfinished_keys
WHERE task = :task AND idempotency_key = :idempotency_key
    AND status IN ('pending', 'running');
