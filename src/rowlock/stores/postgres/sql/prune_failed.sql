-- Deletes dead letters that ended before an age, the oldest first (laws 12, 13); one
-- that keeps its key stays (law 10). Needs live_failed. Locks the rows, and passes by
-- those that are locked.
DELETE FROM {schema}.live
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.live
    WHERE status = 'failed' AND key_until IS NULL
        AND finished_at <= {now} - %(failed)s::bigint * interval '1 microsecond'
    ORDER BY finished_at
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING id;
