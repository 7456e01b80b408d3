-- When the next job of each line, a suspect or another, will be due for these tasks, or
-- is no longer paused;
-- lines without one are left out. Steps through live_pending from the store's now on.
-- A claim that came back short asks it, and remembers the answer. Locks nothing.
WITH pausing AS MATERIALIZED (
    SELECT queue, task, coalesce(until, 'infinity') AS until
    FROM {schema}.pauses
    WHERE until IS NULL OR until > {now}
)
SELECT line.queue, line.priority, min(due.at)
FROM unnest(%(queues)s::text[], %(priorities)s::integer[]) AS line (queue, priority)
CROSS JOIN LATERAL (
    SELECT max(until) AS until FROM pausing WHERE pausing.queue = line.queue
) AS queue_paused
CROSS JOIN LATERAL (
    (
        SELECT run_at AS at
        FROM {schema}.live
        WHERE queue_paused.until IS NULL
            AND status = 'pending'
            AND live.queue = line.queue AND live.priority = line.priority
            AND live.suspect = %(suspects)s::boolean
            AND run_at > {now}
            AND live.task = ANY (ARRAY(
                SELECT name FROM unnest(%(tasks)s::text[]) AS task (name)
                WHERE name <> ALL (ARRAY(SELECT task FROM pausing WHERE task IS NOT NULL))
            ))
            AND (expires_at IS NULL OR expires_at > {now} OR attempts > 0)
        ORDER BY run_at LIMIT 1
    )
    UNION ALL
    SELECT greatest(queue_paused.until, paused.until)
    FROM (
        SELECT until FROM pausing WHERE task = ANY (%(tasks)s::text[])
        UNION ALL
        SELECT queue_paused.until
    ) AS paused
) AS due
WHERE due.at < 'infinity'
GROUP BY line.queue, line.priority;
