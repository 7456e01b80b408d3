-- How many jobs are pending, running, succeeded, failed and cancelled; the greatest id,
-- the last change, on how many days those ended that succeeded or were cancelled, and how
-- many keys `once` has. Reads all of these whole. Locks nothing.
SELECT
    count(*) FILTER (WHERE status = 'pending'),
    count(*) FILTER (WHERE status = 'running'),
    count(*) FILTER (WHERE status = 'succeeded'),
    count(*) FILTER (WHERE status = 'failed'),
    count(*) FILTER (WHERE status = 'cancelled'),
    coalesce(max(id), 0),
    max(updated_at),
    count(DISTINCT (finished_at AT TIME ZONE 'UTC')::date)
        FILTER (WHERE status IN ('succeeded', 'cancelled')),
    (SELECT count(*) FROM {schema}.once_keys)
FROM (
    SELECT id, status, updated_at, finished_at FROM {schema}.live
    UNION ALL
    SELECT id, status, updated_at, finished_at FROM {schema}.history
) AS job;
