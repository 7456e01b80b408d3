-- Writes what claims ended as, where they still hold their job (law 6); one that has
-- succeeded or is cancelled moves to the history. Answers the claims written; one that
-- is missing was refused, or locked by a live transaction, as find.sql tells.
-- Locks the rows in the order of their ids, and passes by those that are locked. What
-- is inserted comes from the DELETE: a row that was changed after this began is neither
-- moved nor removed. After a cancel was asked, pending and failed become cancelled
-- (law 21).
WITH locked AS MATERIALIZED (
    SELECT
        job.*, outcome.*, {now} + outcome.delay * interval '1 microsecond' AS again_at,
        CASE WHEN job.cancel_requested_at IS NOT NULL AND outcome.wanted <> 'succeeded'
            THEN 'cancelled' ELSE outcome.wanted END AS ends,
        -- The wall clock may have been set back since the start.
        greatest({now}, job.started_at) AS ended_at
    FROM unnest(
        %(ids)s::bigint[], %(claims)s::integer[], %(statuses)s::text[],
        %(delays)s::bigint[], %(unstarted)s::integer[], %(failed)s::integer[],
        %(lost)s::integer[], %(errors)s::jsonb[], %(summaries)s::text[],
        %(results)s::json[], %(metas)s::jsonb[]
    ) AS outcome (
        job_id, claim, wanted, delay, unstarted, failed, lost, error, summary, outcome,
        patch
    )
    CROSS JOIN LATERAL (
        SELECT live.ctid AS tid, live.*
        FROM {schema}.live
        WHERE live.id = outcome.job_id AND live.claims = outcome.claim
            AND (status = 'running') IS TRUE
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
),
settled AS MATERIALIZED (
    SELECT
        locked.*, attempts - unstarted AS starts, failures + failed AS failed_so_far,
        losses + lost AS lost_so_far, meta || coalesce(patch, '{}') AS patched,
        CASE WHEN attempts > unstarted THEN started_at END AS began_at,
        lost = 1 OR unstarted = 1 AND suspect AS is_suspect,
        coalesce(summary, last_error) AS told,
        CASE WHEN error IS NULL THEN errors ELSE {schema}.noted(
            errors, error || jsonb_build_object(
                'attempt', attempts, 'worker', worker,
                'started_at', {schema}.iso(started_at),
                'ended_at', {schema}.iso(ended_at)
            )
        ) END AS noted
    FROM locked
),
gone AS (
    DELETE FROM {schema}.live USING settled
    WHERE live.ctid = settled.tid AND settled.ends IN ('succeeded', 'cancelled')
    RETURNING settled.*
),
moved AS (
    INSERT INTO {schema}.history (
        id, run_at, expires_at, cancel_requested_at, created_at, started_at,
        finished_at, updated_at, timeout, priority, claims, attempts, failures, losses,
        max_attempts, suspect, status, queue, task, worker, idempotency_key, backoff,
        last_error, progress, meta, errors, state, result, payload
    )
    SELECT
        id, run_at, expires_at, cancel_requested_at, created_at, began_at, ended_at,
        {now}, timeout, priority, claims, starts, failed_so_far, lost_so_far,
        max_attempts, is_suspect, ends, queue, task, worker, idempotency_key, backoff,
        told, progress, patched, noted, state,
        CASE WHEN ends = 'succeeded' THEN outcome END, payload
    FROM gone
),
kept AS (
    UPDATE {schema}.live
    SET
        status = ends,
        run_at = CASE WHEN ends = 'pending' THEN again_at ELSE live.run_at END,
        finished_at = CASE WHEN ends = 'failed' THEN ended_at END,
        attempts = starts,
        started_at = began_at,
        failures = failed_so_far,
        losses = lost_so_far,
        suspect = is_suspect,
        worker = CASE WHEN ends = 'failed' THEN live.worker END,
        leased_until = NULL,
        alone = false,
        abandoned = false,
        meta = patched,
        errors = noted,
        last_error = told,
        updated_at = {now}
    FROM settled
    WHERE live.ctid = settled.tid AND settled.ends IN ('pending', 'failed')
    RETURNING
        live.id, live.claims, live.status,
        CASE WHEN live.status = 'pending' THEN live.run_at END AS due_at,
        live.queue, live.priority
)
SELECT id, claims, ends, NULL::timestamptz, queue, priority FROM gone
UNION ALL
SELECT id, claims, status, due_at, queue, priority FROM kept;
