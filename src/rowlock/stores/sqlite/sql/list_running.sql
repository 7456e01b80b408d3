-- Ids of running jobs that fit, newest first. Needs rowlock_leases, since running jobs
-- are few. Locks nothing.
SELECT id FROM rowlock_rows INDEXED BY rowlock_leases
WHERE status = 'running'
    AND id < coalesce(:after, 9223372036854775807)
    AND (:task IS NULL OR task = :task)
    AND (:queue IS NULL OR queue = :queue)
    AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
    AND (:created_before IS NULL OR created_at <= :created_before)
ORDER BY id DESC
LIMIT :limit;
