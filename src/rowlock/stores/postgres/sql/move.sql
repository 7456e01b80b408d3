-- Gives pending jobs another queue, priority or due time. Answers those moved; one that
-- is missing stands otherwise, or is locked by a live transaction, as find.sql tells.
-- Locks the rows in the order of their ids, and passes by those that are locked.
WITH locked AS MATERIALIZED (
    SELECT job.tid
    FROM unnest(%(ids)s::bigint[]) AS wanted (job_id)
    CROSS JOIN LATERAL (
        SELECT live.ctid AS tid
        FROM {schema}.live
        WHERE live.id = wanted.job_id AND (status = 'pending') IS TRUE
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
)
UPDATE {schema}.live
SET
    queue = coalesce(%(queue)s::text, queue),
    priority = coalesce(%(priority)s::integer, priority),
    run_at = coalesce({now} + %(delay)s::bigint * interval '1 microsecond', run_at),
    errors = {schema}.noted(
        errors,
        %(act)s::jsonb || jsonb_strip_nulls(jsonb_build_object(
            'at', {schema}.iso({now}),
            'run_at',
            {schema}.iso({now} + %(delay)s::bigint * interval '1 microsecond')
        ))
    ),
    updated_at = {now}
WHERE ctid = ANY (ARRAY(SELECT tid FROM locked))
RETURNING id, queue, priority, run_at, suspect;
