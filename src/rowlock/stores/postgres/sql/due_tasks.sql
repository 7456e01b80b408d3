-- How many jobs are due, by queue and task. Reads the pending ones, from live_pending
-- where the table is much larger. Locks nothing.
SELECT queue, task, count(*)
FROM {schema}.live
WHERE status = 'pending' AND run_at <= {now}
GROUP BY queue, task
ORDER BY queue, task;
