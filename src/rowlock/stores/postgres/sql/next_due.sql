-- When to look again at each line for suspects or others of these tasks: when the next
-- job after a look is due, when a pause is over, or a second after a look that left a
-- due job, whose row somebody's transaction held. Lines without any are left out.
-- Steps through live_pending, from where the look began. A claim that came back short
-- asks it, and remembers the answer. Locks nothing.
WITH pausing AS MATERIALIZED (
    SELECT queue, task, coalesce(until, 'infinity') AS until
    FROM {schema}.pauses
    WHERE until IS NULL OR until > {now}
),
wanted AS MATERIALIZED (
    SELECT array_agg(name) AS tasks
    FROM unnest(%(tasks)s::text[]) AS task (name)
    WHERE name <> ALL (ARRAY(SELECT task FROM pausing WHERE task IS NOT NULL))
)
SELECT line.queue, line.priority, min(due.at)
FROM unnest(
    %(queues)s::text[], %(priorities)s::integer[],
    %(after_ats)s::timestamptz[], %(after_ids)s::bigint[]
) AS line (queue, priority, after_at, after_id)
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
            AND run_at > %(looked_at)s::timestamptz
            AND live.task = ANY ((SELECT tasks FROM wanted)::text[])
            AND (expires_at IS NULL OR expires_at > {now} OR attempts > 0)
        ORDER BY run_at LIMIT 1
    )
    UNION ALL
    (
        SELECT %(looked_at)s::timestamptz + interval '1 second'
        FROM {schema}.live
        WHERE queue_paused.until IS NULL
            AND status = 'pending'
            AND live.queue = line.queue AND live.priority = line.priority
            AND live.suspect = %(suspects)s::boolean
            AND run_at <= %(looked_at)s::timestamptz
            AND (run_at, id) > (line.after_at, line.after_id)
            AND live.task = ANY ((SELECT tasks FROM wanted)::text[])
            AND (expires_at IS NULL OR expires_at > {now} OR attempts > 0)
        ORDER BY run_at, id LIMIT 1
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
