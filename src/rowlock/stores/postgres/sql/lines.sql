-- The lines there are: each queue with a priority of its pending jobs, by queue, the
-- best priority first. Steps through live_pending, one step a line however many jobs
-- it has; it meets dead entries too, so only a full look asks. Locks nothing.
WITH RECURSIVE named (queue) AS (
    SELECT name FROM unnest(%(queues)s::text[]) AS name
    UNION ALL
    SELECT first.queue FROM (
        SELECT queue FROM {schema}.live
        WHERE status = 'pending' AND %(queues)s::text[] IS NULL
        ORDER BY queue LIMIT 1
    ) AS first
    UNION ALL
    SELECT following.queue
    FROM named
    CROSS JOIN LATERAL (
        SELECT live.queue FROM {schema}.live
        WHERE status = 'pending' AND live.queue > named.queue
            AND %(queues)s::text[] IS NULL
        ORDER BY live.queue LIMIT 1
    ) AS following
),
line (queue, priority) AS (
    SELECT named.queue, best.priority
    FROM named
    CROSS JOIN LATERAL (
        SELECT priority FROM {schema}.live
        WHERE status = 'pending' AND live.queue = named.queue
        ORDER BY priority DESC LIMIT 1
    ) AS best
    UNION ALL
    SELECT line.queue, following.priority
    FROM line
    CROSS JOIN LATERAL (
        SELECT live.priority FROM {schema}.live
        WHERE status = 'pending'
            AND live.queue = line.queue AND live.priority < line.priority
        ORDER BY live.priority DESC LIMIT 1
    ) AS following
)
SELECT queue, priority FROM line ORDER BY queue, priority DESC;
