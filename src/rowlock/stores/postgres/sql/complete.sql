-- Records a success in the caller's transaction, or fails that where the claim doesn't
-- hold (law 6). Answers the job. A cancel that was asked meanwhile is too late (law
-- 21).
-- Locks the row before it is looked at, as hold.sql does. It moves to the history where
-- that has the day and the job keeps no key (law 10), else it stays among the live ones
-- as succeeded and upkeep moves it: a caller's transaction makes no partition, which
-- would wait, or have others wait. Needs the primary key.
WITH held AS MATERIALIZED (
    SELECT
        {schema}.hold(%(id)s::bigint, %(claim)s::integer) AS is_held,
        {schema}.has_day({now}) AS has_day
),
gone AS (
    DELETE FROM {schema}.live
    WHERE id = %(id)s::bigint AND claims = %(claim)s::integer
        AND (SELECT is_held AND has_day FROM held) AND (started_at > {now}) IS NOT TRUE
        AND idempotency_for IS NULL
    RETURNING *
),
moved AS (
    INSERT INTO {schema}.history (
        id, run_at, expires_at, cancel_requested_at, created_at, started_at,
        finished_at, updated_at, timeout, priority, claims, attempts, failures, losses,
        max_attempts, auto_replays, status, queue, task, worker, idempotency_key,
        backoff, last_error, progress, meta, errors, state, result, payload
    )
    SELECT
        id, run_at, expires_at, cancel_requested_at, created_at, started_at, {now},
        {now}, timeout, priority, claims, attempts, failures, losses, max_attempts,
        auto_replays, 'succeeded', queue, task, worker, idempotency_key, backoff,
        last_error, coalesce(%(progress)s::json, progress),
        meta || coalesce(%(meta)s::jsonb, '{}'), errors, state, %(result)s::json,
        payload
    FROM gone
),
kept AS (
    UPDATE {schema}.live
    SET
        status = 'succeeded',
        -- The wall clock may have been set back since the start.
        finished_at = greatest({now}, started_at),
        suspect = false,
        fingerprint = NULL,
        leased_until = NULL,
        alone = false,
        abandoned = false,
        progress = coalesce(%(progress)s::json, progress),
        meta = meta || coalesce(%(meta)s::jsonb, '{}'),
        result = %(result)s::json,
        updated_at = {now}
    WHERE id = %(id)s::bigint AND claims = %(claim)s::integer
        AND (SELECT is_held FROM held)
        AND (
            (SELECT NOT has_day FROM held) OR started_at > {now}
            OR idempotency_for IS NOT NULL
        )
    RETURNING id
)
SELECT id::text FROM gone
UNION ALL
SELECT id::text FROM kept
UNION ALL
-- Looked at in any case, or a claim that doesn't hold would only find no row.
SELECT NULL WHERE (SELECT is_held FROM held) IS NOT TRUE;
