-- How many jobs of each queue ended since an instant, however they did. Read from
-- rowlock_finished alone. Locks nothing.
SELECT queue, count(*)
FROM rowlock_rows INDEXED BY rowlock_finished
WHERE status IN ('succeeded', 'failed', 'cancelled') AND finished_at > :since
GROUP BY queue;
