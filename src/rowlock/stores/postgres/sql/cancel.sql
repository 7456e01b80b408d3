-- Cancels pending jobs, which move to the history unless they keep their key for a
-- while (law 10), and asks running ones to cancel, of which the first asking counts
-- (law 21). Answers those cancelled or asked; one that is missing stands otherwise, or
-- is locked by a live transaction, as find.sql tells.
-- Locks the rows in the order of their ids, and passes by those that are locked. What
-- is inserted comes from the DELETE, as in finish.sql.
WITH locked AS MATERIALIZED (
    SELECT
        job.*, greatest({now}, job.started_at) AS ended_at,
        {schema}.noted(
            job.errors, %(act)s::jsonb || jsonb_build_object('at', {schema}.iso({now}))
        ) AS noted
    FROM unnest(%(ids)s::bigint[]) AS wanted (job_id)
    CROSS JOIN LATERAL (
        SELECT live.ctid AS tid, live.*
        FROM {schema}.live
        WHERE live.id = wanted.job_id AND (status IN ('pending', 'running')) IS TRUE
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
),
gone AS (
    DELETE FROM {schema}.live USING locked
    WHERE live.ctid = locked.tid AND locked.status = 'pending'
        AND locked.idempotency_for IS NULL
    RETURNING locked.*
),
moved AS (
    INSERT INTO {schema}.history (
        id, run_at, expires_at, created_at, started_at, finished_at, updated_at,
        timeout, priority, claims, attempts, failures, losses, max_attempts,
        auto_replays, suspect, status, queue, task, worker, idempotency_key, backoff,
        last_error, progress, meta, errors, state, payload
    )
    SELECT
        id, run_at, expires_at, created_at, started_at, ended_at, {now}, timeout,
        priority, claims, attempts, failures, losses, max_attempts, auto_replays,
        suspect, 'cancelled', queue, task, worker, idempotency_key, backoff, last_error,
        progress, meta, noted, state, payload
    FROM gone
),
kept AS (
    UPDATE {schema}.live
    SET
        status = 'cancelled', finished_at = ended_at, fingerprint = NULL, errors = noted,
        updated_at = {now}
    FROM locked
    WHERE live.ctid = locked.tid AND locked.status = 'pending'
        AND locked.idempotency_for IS NOT NULL
    RETURNING live.id
),
asked AS (
    UPDATE {schema}.live
    SET cancel_requested_at = {now}, updated_at = {now}, errors = noted
    FROM locked
    WHERE live.ctid = locked.tid
        AND locked.status = 'running' AND locked.cancel_requested_at IS NULL
    RETURNING live.id
)
SELECT id, 'cancelled' FROM gone
UNION ALL
SELECT id, 'cancelled' FROM kept
UNION ALL
SELECT id, 'running' FROM asked
UNION ALL
SELECT id, 'running' FROM locked
WHERE status = 'running' AND cancel_requested_at IS NOT NULL;
