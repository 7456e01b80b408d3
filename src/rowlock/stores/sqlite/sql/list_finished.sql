-- Ids of failed or cancelled jobs that fit, newest first. Needs rowlock_finished: few
-- among many that succeeded are found without reading those. Locks nothing.
SELECT id FROM rowlock_rows INDEXED BY rowlock_finished
WHERE status = :status AND finished_at IS NOT NULL
    AND id < coalesce(:after, 9223372036854775807)
    AND (:task IS NULL OR task = :task)
    AND (:queue IS NULL OR queue = :queue)
    AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
    AND (:created_before IS NULL OR created_at <= :created_before)
ORDER BY id DESC
LIMIT :limit;
