-- Where a pending job stands: whether it is suspect, and how many due jobs of these
-- tasks come before it in its queue (law 4), how many of them by their priority.
-- Suspects and others are two lines of their own. Reads live_pending from the queue's
-- head, as many entries as it is asked to count. Locks nothing.
SELECT job.suspect, count(ahead.is_better), count(*) FILTER (WHERE ahead.is_better)
FROM {schema}.live AS job
LEFT JOIN LATERAL (
    SELECT other.priority > job.priority AS is_better
    FROM {schema}.live AS other
    WHERE other.status = 'pending' AND other.queue = job.queue
        AND other.priority >= job.priority AND other.suspect = job.suspect
        AND other.run_at <= {now}
        AND other.task = ANY (%(tasks)s::text[])
        AND (
            other.priority > job.priority
            OR (other.run_at, other.id) < (job.run_at, job.id)
        )
    LIMIT %(limit)s::bigint
) AS ahead ON true
WHERE job.id = %(id)s::bigint AND (job.status = 'pending') IS TRUE
GROUP BY job.suspect;
