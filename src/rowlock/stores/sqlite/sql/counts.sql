-- Jobs by queue and status; of the pending ones how many are due, and since when the
-- first. Read from the partial indexes alone, running jobs apart. Locks nothing.
SELECT
    queue, 'pending', count(*), sum(run_at <= :now),
    min(CASE WHEN run_at <= :now THEN run_at END)
FROM rowlock_rows INDEXED BY rowlock_pending
WHERE status = 'pending'
GROUP BY queue
UNION ALL
SELECT queue, 'running', count(*), 0, NULL
FROM rowlock_rows INDEXED BY rowlock_leases
WHERE status = 'running'
GROUP BY queue
UNION ALL
SELECT queue, 'succeeded', count(*), 0, NULL
FROM rowlock_rows INDEXED BY rowlock_succeeded
WHERE status = 'succeeded'
GROUP BY queue
UNION ALL
SELECT queue, 'failed', count(*), 0, NULL
FROM rowlock_rows INDEXED BY rowlock_failed
WHERE status = 'failed'
GROUP BY queue
UNION ALL
SELECT queue, 'cancelled', count(*), 0, NULL
FROM rowlock_rows INDEXED BY rowlock_cancelled
WHERE status = 'cancelled'
GROUP BY queue;
