-- Cancels pending jobs that were not started in time, the earliest first (laws 12, 13).
-- None keeps its key: nothing has run (law 10). Needs rowlock_expiring. Under the write
-- lock.
UPDATE rowlock_rows
SET status = 'cancelled', finished_at = :now, key_freed = 1, updated_at = :now
WHERE id IN (
    SELECT id FROM rowlock_rows INDEXED BY rowlock_expiring
    WHERE status = 'pending' AND attempts = 0 AND expires_at IS NOT NULL
        AND expires_at <= :now
    ORDER BY expires_at
    LIMIT :limit
)
RETURNING id;
