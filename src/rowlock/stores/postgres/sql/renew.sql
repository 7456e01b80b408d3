-- Extends claims that still hold their job, whether or not their lease ran out (law 8),
-- and shows that the worker lives. Answers the claims extended; one that is missing is
-- lost, or locked by a live transaction, as find.sql tells.
-- Locks the rows in the order of their ids, and passes by those that are locked. By
-- `IS TRUE` the planner can't take the partial index of all that runs for each id.
WITH held AS MATERIALIZED (
    SELECT job.tid
    FROM unnest(%(ids)s::bigint[], %(claims)s::integer[]) AS claim (id, number)
    CROSS JOIN LATERAL (
        SELECT live.ctid AS tid
        FROM {schema}.live
        WHERE live.id = claim.id AND live.claims = claim.number
            AND (status = 'running') IS TRUE
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
),
seen AS (
    UPDATE {schema}.workers
    SET seen_at = {now}
    WHERE ctid = (
        SELECT ctid FROM {schema}.workers
        WHERE id = %(worker)s::text
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    )
)
UPDATE {schema}.live
SET
    leased_until = {now} + %(lease)s::bigint * interval '1 microsecond',
    abandoned = abandoned OR %(abandoned)s::boolean
WHERE ctid = ANY (ARRAY(SELECT tid FROM held))
RETURNING id, claims, cancel_requested_at IS NOT NULL;
