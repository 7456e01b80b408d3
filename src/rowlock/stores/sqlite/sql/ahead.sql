-- How many jobs of one line are claimed before a place in it (law 4), as far as it is
-- asked to count. A job past its expires_at is claimed no more, unless it has been
-- started before. Needs rowlock_pending, and reads the rows. Locks nothing.
SELECT count(*)
FROM (
    SELECT id
    FROM rowlock_rows INDEXED BY rowlock_pending
    WHERE status = 'pending' AND queue = :queue AND suspect = :suspects
        AND priority = :priority AND task = :task
        AND (run_at, id) < (:before_run_at, :before_id)
        AND (expires_at IS NULL OR expires_at > :now OR attempts > 0)
    LIMIT :limit
);
