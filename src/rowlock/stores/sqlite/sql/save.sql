-- Keeps a running attempt's state or progress, if its claim still holds (law 6); no
-- row is a claim that is lost. Under the write lock.
UPDATE rowlock_rows
SET
    state = coalesce(:state, state),
    progress = coalesce(:progress, progress),
    updated_at = :now
WHERE id = :id AND claims = :claim AND status = 'running'
RETURNING +id;
