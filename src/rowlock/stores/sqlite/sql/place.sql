-- Where a pending job stands: whether it is suspect, and how many due jobs of these
-- tasks come before it in its queue (law 4), how many of them by their priority.
-- Suspects and others are two lines of their own. Reads rowlock_pending from the queue's
-- head, as many entries as it is asked to count. Locks nothing.
WITH job AS (
    SELECT id, queue, priority, suspect, run_at FROM rowlock_rows NOT INDEXED
    WHERE id = :id AND status = 'pending'
),
ahead AS (
    SELECT other.priority > job.priority AS is_better
    FROM job
    CROSS JOIN rowlock_rows AS other INDEXED BY rowlock_pending
    WHERE other.status = 'pending' AND other.queue = job.queue
        AND other.priority >= job.priority AND other.suspect = job.suspect
        AND other.run_at <= :now
        AND other.task IN (SELECT value FROM json_each(:tasks))
        AND (
            other.priority > job.priority
            OR (other.run_at, other.id) < (job.run_at, job.id)
        )
    LIMIT :limit
)
SELECT
    suspect,
    (SELECT count(*) FROM ahead),
    (SELECT coalesce(sum(is_better), 0) FROM ahead)
FROM job;
