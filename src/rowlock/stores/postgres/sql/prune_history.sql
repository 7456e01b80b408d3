-- Deletes jobs that ended before the age for their status, the oldest first (laws 12,
-- 13), where a partition can't be dropped whole. Needs history_finished. Locks the rows,
-- and passes by those that are locked.
WITH old AS MATERIALIZED (
    SELECT id, finished_at FROM {schema}.history
    WHERE (
            status = 'succeeded'
            AND finished_at <= {now} - %(succeeded)s::bigint * interval '1 microsecond'
        )
        OR (
            status = 'cancelled'
            AND finished_at <= {now} - %(cancelled)s::bigint * interval '1 microsecond'
        )
    ORDER BY finished_at
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.history
USING old
WHERE history.id = old.id AND history.finished_at = old.finished_at
RETURNING history.id;
