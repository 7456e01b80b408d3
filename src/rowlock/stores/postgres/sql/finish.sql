-- Writes what claims ended as, where they still hold their job (law 6) and a recovery's
-- lease is the one that was over (law 9); one that has succeeded or is cancelled moves
-- to the history, unless it keeps its key for a while (law 10). Answers the claims
-- written; one that is missing was refused, or locked by a live transaction, as
-- find.sql tells.
-- Locks the rows in the order of their ids, and passes by those that are locked. What
-- is inserted comes from the DELETE: a row that was changed after this began is neither
-- moved nor removed. After a cancel was asked, pending and failed become cancelled (law
-- 21).
WITH locked AS MATERIALIZED (
    SELECT
        job.*, outcome.result AS returned,
        CASE WHEN job.cancel_requested_at IS NOT NULL AND outcome.status <> 'succeeded'
            THEN 'cancelled' ELSE outcome.status END AS ends,
        {now} + outcome.delay * interval '1 microsecond' AS again_at,
        -- The wall clock may have been set back since the start.
        greatest({now}, job.started_at) AS ended_at,
        CASE WHEN job.attempts > outcome.unstarted THEN job.started_at END AS began_at,
        job.attempts - outcome.unstarted AS starts,
        job.failures + outcome.failed AS failed,
        job.losses + outcome.lost AS lost,
        outcome.lost = 1 OR outcome.unstarted = 1 AND job.suspect AS doubted,
        coalesce(outcome.summary, job.last_error) AS told,
        coalesce(outcome.fingerprint, job.fingerprint) AS same_as,
        (outcome.error ->> 'unrecoverable')::boolean IS TRUE AS is_hopeless,
        CASE WHEN outcome.meta IS NULL THEN job.meta ELSE job.meta || outcome.meta END
            AS patched,
        CASE WHEN outcome.error IS NULL THEN job.errors ELSE {schema}.noted(
            job.errors, outcome.error || jsonb_build_object(
                'attempt', job.attempts, 'worker', job.worker,
                'version', (
                    SELECT worker.version FROM {schema}.workers AS worker
                    WHERE worker.id = job.worker
                ),
                'started_at', {schema}.iso(job.started_at),
                'ended_at', {schema}.iso(greatest({now}, job.started_at))
            )
        ) END AS noted
    FROM unnest(
        %(ids)s::bigint[], %(claims)s::integer[], %(statuses)s::text[],
        %(delays)s::bigint[], %(unstarted)s::integer[], %(failed)s::integer[],
        %(lost)s::integer[], %(errors)s::jsonb[], %(summaries)s::text[],
        %(fingerprints)s::text[], %(results)s::json[], %(metas)s::jsonb[],
        %(leases)s::timestamptz[]
    ) AS outcome (
        id, claim, status, delay, unstarted, failed, lost, error, summary, fingerprint,
        result, meta, lease
    )
    CROSS JOIN LATERAL (
        SELECT live.ctid AS tid, live.*
        FROM {schema}.live
        WHERE live.id = outcome.id AND live.claims = outcome.claim
            AND (status = 'running') IS TRUE
            AND (outcome.lease IS NULL OR live.leased_until = outcome.lease)
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
),
gone AS (
    DELETE FROM {schema}.live USING locked
    WHERE live.ctid = locked.tid AND locked.ends IN ('succeeded', 'cancelled')
        AND locked.idempotency_for IS NULL
    RETURNING locked.*
),
moved AS (
    INSERT INTO {schema}.history (
        id, run_at, expires_at, cancel_requested_at, created_at, started_at,
        finished_at, updated_at, timeout, priority, claims, attempts, failures, losses,
        max_attempts, auto_replays, suspect, status, queue, task, worker,
        idempotency_key, backoff, last_error, progress, meta, errors, state, result,
        payload
    )
    SELECT
        id, run_at, expires_at, cancel_requested_at, created_at, began_at, ended_at,
        {now}, timeout, priority, claims, starts, failed, lost, max_attempts,
        auto_replays, doubted, ends, queue, task, worker, idempotency_key, backoff,
        told, progress, patched, noted, state,
        CASE WHEN ends = 'succeeded' THEN returned END, payload
    FROM gone
),
kept AS (
    UPDATE {schema}.live
    SET
        status = ends,
        run_at = CASE WHEN ends = 'pending' THEN again_at ELSE live.run_at END,
        finished_at = CASE WHEN ends <> 'pending' THEN ended_at END,
        attempts = starts,
        started_at = began_at,
        failures = failed,
        losses = lost,
        suspect = doubted,
        unrecoverable = ends = 'failed' AND is_hopeless,
        fingerprint = CASE WHEN ends IN ('pending', 'failed') THEN same_as END,
        worker = CASE WHEN ends <> 'pending' THEN live.worker END,
        leased_until = NULL,
        alone = false,
        abandoned = false,
        meta = patched,
        errors = noted,
        last_error = told,
        result = CASE WHEN ends = 'succeeded' THEN returned END,
        updated_at = {now}
    FROM locked
    WHERE live.ctid = locked.tid
        AND (locked.ends IN ('pending', 'failed') OR locked.idempotency_for IS NOT NULL)
    RETURNING
        live.id, live.claims, live.status,
        CASE WHEN live.status = 'pending' THEN live.run_at END AS due_at,
        live.queue, live.priority, live.suspect
)
SELECT id, claims, ends, NULL::timestamptz, queue, priority, false FROM gone
UNION ALL
SELECT id, claims, status, due_at, queue, priority, suspect FROM kept;
