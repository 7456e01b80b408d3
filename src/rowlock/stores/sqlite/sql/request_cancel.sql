-- Asks one running job to cancel; the first asking counts (law 21). Under the write
-- lock.
UPDATE rowlock_rows
SET cancel_requested_at = :now, updated_at = :now
WHERE id = :id AND status = 'running' AND cancel_requested_at IS NULL;
