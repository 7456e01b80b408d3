-- Extends one claim, if it still holds its job, whether or not its lease ran out
-- (law 8); no row is a claim that is lost. Under the write lock.
UPDATE rowlock_rows
SET leased_until = :leased_until, abandoned = max(abandoned, :abandoned)
WHERE id = :id AND claims = :claim AND status = 'running'
RETURNING cancel_requested_at;
