-- Deletes jobs that finished before the instant for their status, the oldest first
-- (laws 12, 13); one that keeps its key stays (law 10). Needs rowlock_finished, of
-- which each status is read to the limit, then all are merged. Under the write lock.
DELETE FROM rowlock_rows
WHERE id IN (
    SELECT id FROM (
        SELECT * FROM (
            SELECT id, finished_at FROM rowlock_rows INDEXED BY rowlock_finished
            WHERE status = 'succeeded' AND finished_at <= :succeeded
                AND (idempotency_for IS NULL OR key_freed)
            ORDER BY finished_at LIMIT :limit
        )
        UNION ALL
        SELECT * FROM (
            SELECT id, finished_at FROM rowlock_rows INDEXED BY rowlock_finished
            WHERE status = 'cancelled' AND finished_at <= :cancelled
                AND (idempotency_for IS NULL OR key_freed)
            ORDER BY finished_at LIMIT :limit
        )
        UNION ALL
        SELECT * FROM (
            SELECT id, finished_at FROM rowlock_rows INDEXED BY rowlock_finished
            WHERE status = 'failed' AND finished_at <= :failed
                AND (idempotency_for IS NULL OR key_freed)
            ORDER BY finished_at LIMIT :limit
        )
    )
    ORDER BY finished_at
    LIMIT :limit
);
