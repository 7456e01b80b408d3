-- Deletes jobs that ended before the age for their status, the oldest first (laws 12,
-- 13), where a partition can't be dropped whole. Needs history_finished, and reads none
-- that is younger than both ages. Locks the rows, and passes by those that are locked.
WITH old AS MATERIALIZED (
    SELECT id, finished_at FROM {schema}.history
    WHERE finished_at <= {now} - least(%(succeeded)s::bigint, %(cancelled)s::bigint)
            * interval '1 microsecond'
        AND finished_at <= {now} - CASE status
            WHEN 'succeeded' THEN %(succeeded)s::bigint ELSE %(cancelled)s::bigint
        END * interval '1 microsecond'
    ORDER BY finished_at
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.history
USING old
WHERE history.id = old.id AND history.finished_at = old.finished_at
RETURNING history.id;
