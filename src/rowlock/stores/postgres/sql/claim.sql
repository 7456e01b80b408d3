-- Takes due jobs for a worker, suspects or others (laws 3, 4, 5, 11, 13, 16): queues in
-- the turn given, of each its lines (a priority each) in the order given, of a line by due
-- time, then id. Every row of the answer, one at least, ends with the store's now and what
-- is paused.
-- Needs live_pending. Locks the rows that it takes, and passes by those that are locked.
-- A line begins after a place where nothing was left (bounds.py says which). The last
-- part reads nothing: it takes the lock of the table for sharing, which a pause waits
-- for, so that a claim is done before the pause, or sees it.
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
picked AS MATERIALIZED (
    SELECT job.tid
    FROM unnest(%(queues)s::text[], %(limits)s::bigint[]) AS served (queue, most)
    CROSS JOIN LATERAL (
        SELECT job.tid
        FROM unnest(
            %(line_queues)s::text[], %(priorities)s::integer[],
            %(after_ats)s::timestamptz[], %(after_ids)s::bigint[]
        ) AS line (queue, priority, after_at, after_id)
        CROSS JOIN LATERAL (
            SELECT live.ctid AS tid
            FROM {schema}.live
            WHERE status = 'pending'
                AND queue = line.queue AND priority = line.priority
                AND suspect = %(suspects)s::boolean
                AND run_at <= {now} AND (run_at, id) > (line.after_at, line.after_id)
                AND task = ANY ((SELECT tasks FROM wanted)::text[])
                AND (expires_at IS NULL OR expires_at > {now} OR attempts > 0)
            ORDER BY run_at, id
            LIMIT served.most
            FOR UPDATE SKIP LOCKED
        ) AS job
        WHERE line.queue = served.queue
        LIMIT served.most
    ) AS job
    WHERE served.queue <> ALL ((SELECT queues FROM pausing)::text[])
    LIMIT %(total)s::bigint
),
taken AS (
    UPDATE {schema}.live
    SET
        status = 'running',
        claims = claims + 1,
        attempts = attempts + 1,
        leased_until = {now} + %(lease)s::bigint * interval '1 microsecond',
        worker = %(worker)s::text,
        alone = %(alone)s::boolean,
        abandoned = false,
        started_at = {now},
        updated_at = {now}
    WHERE ctid = ANY (ARRAY(SELECT tid FROM picked))
    RETURNING
        id, claims, task, queue, priority, attempts, failures, losses, max_attempts,
        timeout, backoff, idempotency_key, worker, alone, abandoned, state, run_at,
        created_at, started_at, leased_until, cancel_requested_at, payload
)
SELECT taken.*, {now}, pausing.queues, pausing.tasks
FROM pausing
LEFT JOIN taken ON true
LEFT JOIN (SELECT FROM {schema}.pauses WHERE false FOR KEY SHARE) AS shared ON true;
