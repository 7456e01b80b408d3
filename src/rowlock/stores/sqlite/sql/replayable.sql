-- Ids of a task's dead letters that may be replayed automatically, the oldest first:
-- not given up for good, not yet replayed so often, of one key the newest, and none
-- whose key is held (law 10). Needs rowlock_dead and rowlock_keys. Locks
-- nothing.
SELECT id FROM rowlock_rows AS job INDEXED BY rowlock_dead
WHERE status = 'failed' AND task = :task
    AND auto_replays < :most AND NOT unrecoverable
    AND (
        idempotency_key IS NULL
        OR NOT EXISTS (
            SELECT 1 FROM rowlock_rows AS other INDEXED BY rowlock_keys
            WHERE other.idempotency_key = job.idempotency_key
                AND other.idempotency_key IS NOT NULL AND other.task = job.task
                AND (
                    other.status IN ('pending', 'running')
                    OR other.key_until > :now AND other.id <> job.id
                    OR other.status = 'failed' AND other.id > job.id
                        AND (job.key_until > :now) IS NOT TRUE
                )
        )
    )
ORDER BY id
LIMIT :limit;
