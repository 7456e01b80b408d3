-- Removes finished jobs for good; their ids are not used again (law 20). Answers those
-- removed; one that is missing stands otherwise, or is locked by a live transaction, as
-- find.sql tells.
-- Locks the rows in the order of their ids, live ones first, and passes by those that
-- are locked.
WITH live_ones AS MATERIALIZED (
    SELECT job.tid
    FROM unnest(%(ids)s::bigint[]) AS wanted (job_id)
    CROSS JOIN LATERAL (
        SELECT live.ctid AS tid
        FROM {schema}.live
        WHERE live.id = wanted.job_id
            AND (status IN ('succeeded', 'failed', 'cancelled')) IS TRUE
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
),
finished_ones AS MATERIALIZED (
    SELECT job.id, job.finished_at
    FROM unnest(%(ids)s::bigint[]) AS wanted (job_id)
    CROSS JOIN LATERAL (
        SELECT id, finished_at
        FROM {schema}.history
        WHERE history.id = wanted.job_id
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
),
from_live AS (
    DELETE FROM {schema}.live
    WHERE ctid = ANY (ARRAY(SELECT tid FROM live_ones))
    RETURNING id
),
from_history AS (
    DELETE FROM {schema}.history USING finished_ones
    WHERE history.id = finished_ones.id
        AND history.finished_at = finished_ones.finished_at
    RETURNING history.id
)
SELECT id FROM from_live
UNION ALL
SELECT id FROM from_history;
