-- Frees a key of a task that a job has kept after its end for as long as it was to
-- (law 10). Needs rowlock_held_keys, whose condition is repeated here. Under the write
-- lock.
UPDATE rowlock_rows INDEXED BY rowlock_held_keys
SET key_freed = 1
WHERE task = :task AND idempotency_key = :idempotency_key
    AND idempotency_key IS NOT NULL
    AND (status IN ('pending', 'running') OR key_until IS NOT NULL)
    AND key_until <= :now
RETURNING +id;
