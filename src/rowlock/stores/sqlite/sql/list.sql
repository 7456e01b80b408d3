-- Ids of jobs that fit, newest first: read from the newest on, so that a page of what
-- most jobs are comes at once. Locks nothing.
SELECT id FROM rowlock_rows
WHERE id < coalesce(:after, 9223372036854775807)
    AND (:status IS NULL OR status = :status)
    AND (:task IS NULL OR task = :task)
    AND (:queue IS NULL OR queue = :queue)
    AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
    AND (:created_before IS NULL OR created_at <= :created_before)
ORDER BY id DESC
LIMIT :limit;
