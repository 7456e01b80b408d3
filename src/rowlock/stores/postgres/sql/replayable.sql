-- Ids of a task's dead letters that may be replayed automatically, the oldest first:
-- not given up for good, not yet replayed so often, of one key the newest, and none
-- whose key is held (law 10). Needs live_dead, and live_keys for each that has a key; as
-- NOT EXISTS it would be joined with all of them. Locks nothing.
SELECT job.id
FROM {schema}.live AS job
LEFT JOIN LATERAL (
    SELECT other.id
    FROM {schema}.live AS other
    WHERE other.idempotency_key = job.idempotency_key
        AND other.idempotency_key IS NOT NULL AND other.task = job.task
        AND (
            other.status IN ('pending', 'running')
            OR other.key_until > {now} AND other.id <> job.id
            OR other.status = 'failed' AND other.id > job.id
                AND (job.key_until > {now}) IS NOT TRUE
        )
    LIMIT 1
) AS before ON true
WHERE job.status = 'failed' AND job.task = %(task)s::text
    AND job.auto_replays < %(most)s::integer AND NOT job.unrecoverable
    AND before.id IS NULL
ORDER BY job.id
LIMIT %(limit)s::bigint;
