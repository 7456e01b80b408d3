-- Frees the keys of dead or cancelled jobs where they were kept for as long as they were
-- to, whoever has them, so that none of these is blocked by what is over (law 10). Needs
-- live_held_keys. Locks the rows, and passes by those that are locked.
WITH wanted AS MATERIALIZED (
    SELECT task, idempotency_key AS key FROM {schema}.live
    WHERE id = ANY (%(ids)s::bigint[]) AND idempotency_key IS NOT NULL
        AND (status IN ('failed', 'cancelled')) IS TRUE
    UNION
    SELECT task, idempotency_key FROM {schema}.history
    WHERE id = ANY (%(ids)s::bigint[]) AND idempotency_key IS NOT NULL
        AND (status = 'cancelled') IS TRUE
),
late AS MATERIALIZED (
    SELECT holder.tid
    FROM wanted
    CROSS JOIN LATERAL (
        SELECT live.ctid AS tid
        FROM {schema}.live
        WHERE live.task = wanted.task AND live.idempotency_key = wanted.key
            AND live.idempotency_key IS NOT NULL
            AND (live.status IN ('pending', 'running') OR live.key_until IS NOT NULL)
            AND (live.key_until <= {now}) IS TRUE
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS holder
)
UPDATE {schema}.live
SET key_freed = true
FROM late
WHERE live.ctid = late.tid;
