-- Puts failed and cancelled jobs back to pending, each after a delay of its own and in
-- another queue where one is given, with their history; where there is a `most`, dead
-- letters only, which were replayed automatically less often, and that is counted. Of
-- several with one (task, key) the newest goes, and none whose key another job holds
-- (law 10): the rows are chosen first, since one conflict would undo them all. Answers
-- those put back, and those blocked with the job that holds their key; one that is
-- missing stands otherwise, or is locked by a live transaction, as find.sql tells.
-- Locks the rows in the order of their ids, live ones first, and passes by those that
-- are locked. Needs live_held_keys, after free_keys_of.sql. Where a key is taken
-- meanwhile it fails, and is run again.
WITH found AS MATERIALIZED (
    SELECT job.*, wanted.delay
    FROM unnest(%(ids)s::bigint[], %(delays)s::bigint[]) AS wanted (job_id, delay)
    CROSS JOIN LATERAL (
        SELECT
            id, finished_at, task, idempotency_key AS key, auto_replays, true AS is_live,
            key_until IS NOT NULL AS holds
        FROM {schema}.live
        WHERE live.id = wanted.job_id AND (status IN ('failed', 'cancelled')) IS TRUE
            AND (
                %(most)s::integer IS NULL
                OR status = 'failed' AND auto_replays < %(most)s::integer
            )
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
    UNION ALL
    SELECT job.*, wanted.delay
    FROM unnest(%(ids)s::bigint[], %(delays)s::bigint[]) AS wanted (job_id, delay)
    CROSS JOIN LATERAL (
        SELECT
            id, finished_at, task, idempotency_key AS key, auto_replays,
            false AS is_live, false AS holds
        FROM {schema}.history
        WHERE history.id = wanted.job_id AND (status = 'cancelled') IS TRUE
            AND %(most)s::integer IS NULL
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
),
judged AS MATERIALIZED (
    SELECT
        found.*, {now} + delay * interval '1 microsecond' AS again_at,
        %(act)s::jsonb || jsonb_build_object(
            'by', (%(act)s::jsonb ->> 'by') || coalesce(
                ' (' || auto_replays + 1 || ' of ' || %(most)s::integer || ')', ''
            ),
            'at', {schema}.iso({now}),
            'run_at', {schema}.iso({now} + delay * interval '1 microsecond')
        ) AS entry,
        coalesce(
            (
                SELECT other.id FROM {schema}.live AS other
                WHERE other.task = found.task AND other.idempotency_key = found.key
                    AND other.idempotency_key IS NOT NULL AND other.id <> found.id
                    AND (
                        other.status IN ('pending', 'running')
                        OR other.key_until IS NOT NULL
                    )
            ),
            nullif(
                CASE WHEN key IS NOT NULL AND NOT holds
                    THEN max(id) OVER (PARTITION BY task, key) ELSE id END,
                id
            )
        ) AS blocked_by
    FROM found
),
gone AS (
    DELETE FROM {schema}.history USING judged
    WHERE history.id = judged.id AND history.finished_at = judged.finished_at
        AND NOT judged.is_live AND judged.blocked_by IS NULL
    RETURNING history.*, judged.again_at, judged.entry
),
returned AS (
    INSERT INTO {schema}.live (
        id, run_at, created_at, started_at, updated_at, timeout, priority, claims,
        attempts, max_attempts, auto_replays, queue, task, idempotency_key,
        idempotency_for, backoff, last_error, progress, meta, errors, state, payload
    )
    SELECT
        id, again_at, created_at, started_at, {now}, timeout, priority, claims,
        attempts, max_attempts, auto_replays, coalesce(%(queue)s::text, queue), task,
        idempotency_key, idempotency_for, backoff, last_error, progress, meta,
        {schema}.noted(errors, entry), state, payload
    FROM gone
    RETURNING id, queue, priority, run_at
),
kept AS (
    UPDATE {schema}.live
    SET
        status = 'pending',
        run_at = again_at,
        queue = coalesce(%(queue)s::text, queue),
        expires_at = NULL,
        failures = 0,
        losses = 0,
        auto_replays = live.auto_replays + (%(most)s::integer IS NOT NULL)::integer,
        suspect = false,
        unrecoverable = false,
        key_freed = false,
        worker = NULL,
        cancel_requested_at = NULL,
        finished_at = NULL,
        errors = {schema}.noted(live.errors, entry),
        updated_at = {now}
    FROM judged
    WHERE live.id = judged.id AND judged.is_live AND judged.blocked_by IS NULL
    RETURNING live.id, live.queue, live.priority, live.run_at
)
SELECT id, NULL::bigint, queue, priority, run_at FROM returned
UNION ALL
SELECT id, NULL::bigint, queue, priority, run_at FROM kept
UNION ALL
SELECT id, blocked_by, NULL, NULL, NULL FROM judged WHERE blocked_by IS NOT NULL;
