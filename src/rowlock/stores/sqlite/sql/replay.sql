-- Puts one failed or cancelled job back to pending, in another queue where one is given,
-- its history kept; an automatic replay is counted. Under the write lock, after
-- blocking.sql has found its key free (law 10).
UPDATE rowlock_rows
SET
    status = 'pending',
    run_at = :run_at,
    queue = coalesce(:queue, queue),
    expires_at = NULL,
    failures = 0,
    losses = 0,
    auto_replays = auto_replays + :is_automatic,
    suspect = 0,
    unrecoverable = 0,
    key_freed = 0,
    worker = NULL,
    cancel_requested_at = NULL,
    finished_at = NULL,
    updated_at = :now
WHERE id = :id AND status IN ('failed', 'cancelled');
