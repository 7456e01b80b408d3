-- Cancels one pending job at once. Under the write lock.
UPDATE rowlock_rows
SET
    status = 'cancelled',
    finished_at = max(:now, coalesce(started_at, :now)),
    fingerprint = NULL,
    updated_at = :now
WHERE id = :id AND status = 'pending';
