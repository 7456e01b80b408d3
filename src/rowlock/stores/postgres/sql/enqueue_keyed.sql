-- Adds jobs, some with an idempotency key, unless another job of their task holds it,
-- as it is unfinished or keeps its key for a while (law 10). Answers the store's now
-- and the ids, in the order given, null for a duplicate (law 1), as text: it runs on
-- connections lent, too, for which enqueue.sql says how types and names are chosen.
-- Needs live_held_keys, whose condition is repeated here.
-- A holder that was not started in time will never run: it is cancelled first, and
-- moves to the history (law 12), and one that has kept its key for as long as it was to
-- frees it; the insert reads of them, or it would come first. One that was changed
-- while we waited is there in a form that this snapshot hasn't: then nothing is added,
-- and instead of ids the answer is null: to be run again.
-- Locks the holders and then the keys, each in sorted order, so that two batches can't
-- block each other; waits where another transaction is adding one of them, or has such
-- a holder: it may yet roll back. Ids follow the order given, whatever that of the
-- keys.
WITH job AS MATERIALIZED (
    SELECT job.*, nextval({ids}) AS id
    FROM unnest(
        %(queues)s::text[], %(tasks)s::text[], %(payloads)s::json[],
        %(priorities)s::integer[], %(delays)s::float8[], %(run_ats)s::timestamptz[],
        %(expires_ats)s::timestamptz[], %(max_attempts)s::integer[],
        %(timeouts)s::double precision[], %(backoffs)s::json[], %(metas)s::jsonb[],
        %(idempotency_keys)s::text[], %(idempotency_fors)s::float8[]
    ) WITH ORDINALITY AS job (
        queue, task, payload, priority, delay, run_at, expires_at, max_attempts,
        timeout, backoff, meta, idempotency_key, idempotency_for, place
    )
),
late AS MATERIALIZED (
    SELECT holder.tid, holder.is_over
    FROM (
        SELECT task COLLATE "C" AS task, idempotency_key COLLATE "C" AS key FROM job
        WHERE idempotency_key IS NOT NULL
        GROUP BY 1, 2
        ORDER BY 1, 2
    ) AS wanted
    CROSS JOIN LATERAL (
        SELECT live.ctid AS tid, live.key_until IS NOT NULL AS is_over
        FROM {schema}.live
        WHERE live.task = wanted.task AND live.idempotency_key = wanted.key
            AND live.idempotency_key IS NOT NULL
            AND (live.status IN ('pending', 'running') OR live.key_until IS NOT NULL)
            AND (
                live.status = 'pending' AND attempts = 0 AND expires_at <= {now}
                OR live.key_until <= {now}
            ) IS TRUE
        LIMIT 1
        FOR UPDATE
    ) AS holder
),
gone AS (
    DELETE FROM {schema}.live
    WHERE ctid = ANY (ARRAY(SELECT tid FROM late WHERE NOT is_over))
    RETURNING *
),
moved AS (
    INSERT INTO {schema}.history (
        id, run_at, expires_at, created_at, finished_at, updated_at, timeout, priority,
        claims, attempts, failures, losses, max_attempts, suspect, status, queue, task,
        idempotency_key, idempotency_for, key_freed, backoff, last_error, progress,
        meta, errors, state, payload
    )
    SELECT
        id, run_at, expires_at, created_at, {now}, {now}, timeout, priority, claims,
        attempts, failures, losses, max_attempts, suspect, 'cancelled', queue, task,
        idempotency_key, idempotency_for, true, backoff, last_error, progress, meta,
        {schema}.noted(
            errors,
            pg_catalog.jsonb_build_object(
                'event', 'expired', 'at', {schema}.iso({now})
            )
        ),
        state, payload
    FROM gone
),
freed AS (
    UPDATE {schema}.live
    SET key_freed = true
    WHERE ctid = ANY (ARRAY(SELECT tid FROM late WHERE is_over))
    RETURNING 1
),
ready AS MATERIALIZED (
    SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM freed)
        = (SELECT count(*) FROM late) AS is_ready
),
added AS (
    INSERT INTO {schema}.live (
        id, run_at, expires_at, created_at, updated_at, timeout, priority,
        max_attempts, queue, task, backoff, meta, payload, idempotency_key,
        idempotency_for
    )
    SELECT
        job.id, coalesce(job.run_at, {now} + job.delay * interval '1 microsecond'),
        job.expires_at, {now}, {now}, job.timeout, job.priority, job.max_attempts,
        job.queue, job.task, job.backoff, coalesce(job.meta, '{}'), job.payload,
        job.idempotency_key, job.idempotency_for * interval '1 microsecond'
    FROM job
    WHERE (SELECT is_ready FROM ready)
    ORDER BY job.task COLLATE "C", job.idempotency_key COLLATE "C", job.place
    ON CONFLICT (task, idempotency_key)
    WHERE idempotency_key IS NOT NULL
        AND (status IN ('pending', 'running') OR key_until IS NOT NULL)
    DO NOTHING
    RETURNING id
)
SELECT
    {schema}.iso({now}),
    CASE WHEN (SELECT is_ready FROM ready)
        THEN pg_catalog.array_agg(
            CASE WHEN id IN (SELECT id FROM added) THEN id END ORDER BY place
        )
    END::text
FROM job;
