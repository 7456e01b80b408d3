-- Moves finished jobs that stayed behind to the history, the oldest first. Needs
-- live_left. Locks the rows, and passes by those that are locked.
WITH gone AS (
    DELETE FROM {schema}.live
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.live
        WHERE status IN ('succeeded', 'cancelled')
        ORDER BY finished_at
        LIMIT %(limit)s::bigint
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
)
INSERT INTO {schema}.history
SELECT * FROM gone
RETURNING id;
