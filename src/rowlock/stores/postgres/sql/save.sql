-- Keeps a running attempt's state or progress, if its claim still holds (law 6); no row
-- is a claim that is lost, or locked by a live transaction, as find.sql tells. Locks the
-- row, and passes it by where it is locked.
UPDATE {schema}.live
SET
    state = coalesce(%(state)s::json, state),
    progress = coalesce(%(progress)s::json, progress),
    updated_at = {now}
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.live
    WHERE id = %(id)s::bigint AND claims = %(claim)s::integer
        AND (status = 'running') IS TRUE
    LIMIT 1
    FOR UPDATE SKIP LOCKED
))
RETURNING id;
