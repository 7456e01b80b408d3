-- The queues that have pending jobs, by name: one step of rowlock_pending for each,
-- however many jobs it has. Locks nothing.
WITH RECURSIVE queues (queue) AS (
    SELECT min(queue) FROM rowlock_rows INDEXED BY rowlock_pending
    WHERE status = 'pending'
    UNION ALL
    SELECT (
        SELECT min(later.queue)
        FROM rowlock_rows AS later INDEXED BY rowlock_pending
        WHERE later.status = 'pending' AND later.queue > queues.queue
    )
    FROM queues
    WHERE queues.queue IS NOT NULL
)
SELECT queue FROM queues WHERE queue IS NOT NULL;
