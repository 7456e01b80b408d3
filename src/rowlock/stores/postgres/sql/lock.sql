-- Waits until these jobs are nobody else's, in both relations, at most lock_timeout.
-- Locks them in the order in which an enqueue takes keys and their holders, or each could
-- block the other; live ones first.
WITH live_ones AS MATERIALIZED (
    SELECT id FROM {schema}.live
    WHERE id = ANY (%(ids)s::bigint[])
    ORDER BY task COLLATE "C", idempotency_key COLLATE "C", id
    FOR UPDATE
),
finished_ones AS MATERIALIZED (
    SELECT id FROM {schema}.history
    WHERE id = ANY (%(ids)s::bigint[])
    ORDER BY task COLLATE "C", idempotency_key COLLATE "C", id
    FOR UPDATE
)
SELECT id FROM live_ones
UNION ALL
SELECT id FROM finished_ones;
