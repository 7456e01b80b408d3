-- The due jobs of one line after a place in it, by due time, then id (law 4). A job
-- past its expires_at is left to expire, unless it has been started before.
-- Needs rowlock_pending. A claim runs it under the write lock.
SELECT run_at, id
FROM rowlock_rows INDEXED BY rowlock_pending
WHERE status = 'pending' AND queue = :queue AND suspect = :suspects
    AND priority = :priority AND task = :task
    AND run_at <= :now AND (run_at, id) > (:after_run_at, :after_id)
    AND (expires_at IS NULL OR expires_at > :now OR attempts > 0)
ORDER BY run_at, id
LIMIT :limit;
