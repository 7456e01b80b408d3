-- Jobs by queue and status; of the pending ones how many are due, and since when the
-- first. Reads both relations. Locks nothing.
SELECT
    queue, status, count(*),
    count(*) FILTER (WHERE status = 'pending' AND run_at <= {now}),
    min(run_at) FILTER (WHERE status = 'pending' AND run_at <= {now})
FROM {schema}.live
GROUP BY queue, status
UNION ALL
SELECT queue, status, count(*), 0, NULL
FROM {schema}.history
GROUP BY queue, status;
