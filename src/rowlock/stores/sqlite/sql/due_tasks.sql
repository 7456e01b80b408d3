-- How many jobs are due, by queue and task. Read from rowlock_pending alone. Locks
-- nothing.
SELECT queue, task, count(*)
FROM rowlock_rows INDEXED BY rowlock_pending
WHERE status = 'pending' AND run_at <= :now
GROUP BY queue, task
ORDER BY queue, task;
