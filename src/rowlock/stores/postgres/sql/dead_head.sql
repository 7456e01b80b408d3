-- What it costs to find the first pending job of each line (a queue with a priority),
-- in the order of a claim that passes suspects by, as a worker's full look does: pages read against lines found.
-- Both end at a living entry, so that what is read beyond stood dead before it. Locks
-- nothing. Steps through live_pending.
EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
WITH RECURSIVE line AS (
    (
        SELECT queue, priority FROM {schema}.live
        WHERE status = 'pending'
        ORDER BY queue, priority DESC LIMIT 1
    )
    UNION ALL
    SELECT following.queue, following.priority
    FROM line
    CROSS JOIN LATERAL (
        (
            SELECT live.queue, live.priority FROM {schema}.live
            WHERE status = 'pending'
                AND live.queue = line.queue AND live.priority < line.priority
            ORDER BY live.priority DESC LIMIT 1
        )
        UNION ALL
        (
            SELECT live.queue, live.priority FROM {schema}.live
            WHERE status = 'pending' AND live.queue > line.queue
            ORDER BY live.queue, live.priority DESC LIMIT 1
        )
        LIMIT 1
    ) AS following
)
SELECT first.id
FROM line
CROSS JOIN LATERAL (
    SELECT id FROM {schema}.live
    WHERE status = 'pending'
        AND live.queue = line.queue AND live.priority = line.priority
        AND live.suspect = false
    ORDER BY run_at, id LIMIT 1
) AS first;
