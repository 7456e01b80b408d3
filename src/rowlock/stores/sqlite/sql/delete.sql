-- Removes one finished job for good; its id is not used again (law 20). Under the
-- write lock.
DELETE FROM rowlock_rows
WHERE id = :id AND status IN ('succeeded', 'failed', 'cancelled');
