-- Ids of a task's dead letters that may be replayed automatically, the oldest first:
-- not given up for good, not yet replayed so often, of one key the newest, and none
-- whose key is held (law 10). Needs live_dead, and live_keys. Locks nothing.
SELECT id
FROM {schema}.live AS job
WHERE status = 'failed' AND task = %(task)s::text
    AND auto_replays < %(most)s::integer AND NOT unrecoverable
    AND NOT EXISTS (
        SELECT FROM {schema}.live AS other
        WHERE other.idempotency_key = job.idempotency_key
            AND other.idempotency_key IS NOT NULL AND other.task = job.task
            AND (
                other.status IN ('pending', 'running')
                OR other.status = 'failed' AND other.id > job.id
            )
    )
ORDER BY id
LIMIT %(limit)s::bigint;
