-- Waits until these jobs are nobody else's, in both relations, at most lock_timeout.
-- Locks them in the order of their ids, live ones first.
WITH live_ones AS MATERIALIZED (
    SELECT id FROM {schema}.live
    WHERE id = ANY (%(ids)s::bigint[])
    ORDER BY id
    FOR UPDATE
),
finished_ones AS MATERIALIZED (
    SELECT id FROM {schema}.history
    WHERE id = ANY (%(ids)s::bigint[])
    ORDER BY id
    FOR UPDATE
)
SELECT id FROM live_ones
UNION ALL
SELECT id FROM finished_ones;
