-- Gives one pending job another queue, priority or due time. Under the write lock.
UPDATE rowlock_rows
SET
    queue = coalesce(:queue, queue),
    priority = coalesce(:priority, priority),
    run_at = coalesce(:run_at, run_at),
    updated_at = :now
WHERE id = :id AND status = 'pending';
