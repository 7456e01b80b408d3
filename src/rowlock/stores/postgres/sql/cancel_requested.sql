-- Claims of these that hold their job and were asked to cancel it (law 21). Locks nothing.
-- Reads each by its id: by `IS TRUE` the planner can't take the partial index of all that
-- runs instead.
SELECT claim.id, claim.number
FROM unnest(%(ids)s::bigint[], %(claims)s::integer[]) AS claim (id, number)
CROSS JOIN LATERAL (
    SELECT FROM {schema}.live
    WHERE live.id = claim.id AND live.claims = claim.number
        AND cancel_requested_at IS NOT NULL AND (status = 'running') IS TRUE
    LIMIT 1
) AS asked;
