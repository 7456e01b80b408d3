-- Keeps a running attempt's state or progress, if its claim still holds (law 6); no row
-- is a claim that is lost. Locks the row.
UPDATE {schema}.live
SET
    state = coalesce(%(state)s::json, state),
    progress = coalesce(%(progress)s::json, progress),
    updated_at = {now}
WHERE id = %(id)s::bigint AND claims = %(claim)s::integer
    AND (status = 'running') IS TRUE
RETURNING id;
