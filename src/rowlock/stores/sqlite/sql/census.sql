-- How many jobs are pending, running, succeeded, failed and cancelled; the greatest id,
-- the last change, on how many days those ended that succeeded or were cancelled, and how
-- many keys `once` has. Reads both tables whole. Locks nothing.
SELECT
    count(*) FILTER (WHERE status = 'pending'),
    count(*) FILTER (WHERE status = 'running'),
    count(*) FILTER (WHERE status = 'succeeded'),
    count(*) FILTER (WHERE status = 'failed'),
    count(*) FILTER (WHERE status = 'cancelled'),
    coalesce(max(id), 0),
    max(updated_at),
    count(DISTINCT finished_at / 86400000000)
    FILTER (WHERE status IN ('succeeded', 'cancelled')),
    (SELECT count(*) FROM rowlock_once)
FROM rowlock_rows;
