-- How many jobs of these tasks are claimed before a place in each line of a queue (law 4),
-- by priority, as far as it is asked to count. One past its expires_at is claimed no more,
-- unless it has been started before.
-- Needs live_pending: of a line it reads what is due, and nothing that is planned for
-- later; jobs of other tasks too, before 17 with their rows. Locks nothing.
SELECT line.priority, count(*)
FROM unnest(
    %(priorities)s::integer[], %(before_ats)s::timestamptz[], %(before_ids)s::bigint[]
) AS line (priority, before_at, before_id)
CROSS JOIN LATERAL (
    SELECT id
    FROM {schema}.live
    WHERE status = 'pending'
        AND queue = %(queue)s::text AND priority = line.priority
        AND suspect = %(suspects)s::boolean
        AND (run_at, id) < (line.before_at, line.before_id)
        AND task = ANY (%(tasks)s::text[])
        AND (expires_at IS NULL OR expires_at > {now} OR attempts > 0)
    LIMIT %(limit)s::bigint
) AS due
GROUP BY line.priority;
