-- Jobs by queue and status; of the pending ones how many are due, and since when the
-- first. Pending and finished ones are counted from their indexes alone, which takes
-- about a second for ten million. Locks nothing.
SELECT
    queue, status, count(*), sum(run_at <= :now),
    min(CASE WHEN run_at <= :now THEN run_at END)
FROM rowlock_rows INDEXED BY rowlock_pending
WHERE status = 'pending'
GROUP BY queue
UNION ALL
SELECT queue, status, count(*), 0, NULL
FROM rowlock_rows INDEXED BY rowlock_leases
WHERE status = 'running'
GROUP BY queue
UNION ALL
SELECT queue, status, count(*), 0, NULL
FROM rowlock_rows INDEXED BY rowlock_finished
WHERE finished_at IS NOT NULL
GROUP BY status, queue;
