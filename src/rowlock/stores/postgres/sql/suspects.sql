-- Since when the first suspect of each line is due for these tasks, and which worker is
-- to stop claiming for it: of the live ones that could take it, the one that started
-- last. So nobody's death has to be noticed where a new worker took its place. Every row
-- of the answer, one at least, ends with the store's now and what is paused.
-- Needs live_pending; reads all workers for each suspect found. Locks nothing.
WITH pausing AS MATERIALIZED (
    SELECT
        coalesce(array_agg(queue) FILTER (WHERE queue IS NOT NULL), '{}') AS queues,
        coalesce(array_agg(task) FILTER (WHERE task IS NOT NULL), '{}') AS tasks
    FROM {schema}.pauses
    WHERE until IS NULL OR until > {now}
),
wanted AS MATERIALIZED (
    SELECT array_agg(name) AS tasks
    FROM unnest(%(tasks)s::text[]) AS task (name)
    WHERE name <> ALL ((SELECT tasks FROM pausing)::text[])
),
waiting AS MATERIALIZED (
    SELECT line.queue, line.priority, due.run_at, due.task
    FROM unnest(%(queues)s::text[], %(priorities)s::integer[]) AS line (queue, priority)
    CROSS JOIN LATERAL (
        SELECT live.run_at, live.task
        FROM {schema}.live
        WHERE status = 'pending'
            AND queue = line.queue AND priority = line.priority AND suspect
            AND run_at <= {now}
            AND task = ANY ((SELECT tasks FROM wanted)::text[])
            AND (expires_at IS NULL OR expires_at > {now} OR attempts > 0)
        ORDER BY run_at, id
        LIMIT 1
    ) AS due
    WHERE line.queue <> ALL ((SELECT queues FROM pausing)::text[])
)
SELECT
    waiting.queue, waiting.priority, waiting.run_at,
    (
        SELECT id FROM {schema}.workers
        WHERE seen_at + lease >= {now}
            AND waiting.task = ANY (workers.tasks)
            AND (workers.queues IS NULL OR waiting.queue = ANY (workers.queues))
        ORDER BY started_at DESC, id
        LIMIT 1
    ),
    {now}, pausing.queues, pausing.tasks
FROM pausing
LEFT JOIN waiting ON true;
