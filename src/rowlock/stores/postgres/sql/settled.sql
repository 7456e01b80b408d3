-- How jobs stand whose claim was to be completed in a handler's transaction, and whether
-- that has ended: its row is free, or there is none among the live ones. Missing ids are
-- left out. Locks the rows that are free, for the moment, and waits for none.
WITH free AS MATERIALIZED (
    SELECT job.id
    FROM unnest(%(ids)s::bigint[], %(claims)s::integer[]) AS claim (id, number)
    CROSS JOIN LATERAL (
        SELECT live.id
        FROM {schema}.live
        WHERE live.id = claim.id AND live.claims = claim.number
            AND (status = 'running') IS TRUE
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
)
SELECT id, status, claims, status <> 'running' OR id IN (SELECT id FROM free)
FROM {schema}.live
WHERE id = ANY (%(ids)s::bigint[])
UNION ALL
SELECT id, status, claims, true
FROM {schema}.history
WHERE id = ANY (%(ids)s::bigint[]);
