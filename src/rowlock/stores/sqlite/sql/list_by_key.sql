-- Ids of jobs that fit and have this idempotency key, finished ones too, newest first.
-- Needs rowlock_keys. Locks nothing.
SELECT id FROM rowlock_rows INDEXED BY rowlock_keys
WHERE idempotency_key = :idempotency_key
    AND id < coalesce(:after, 9223372036854775807)
    AND (:status IS NULL OR status = :status)
    AND (:task IS NULL OR task = :task)
    AND (:queue IS NULL OR queue = :queue)
    AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
    AND (:created_before IS NULL OR created_at <= :created_before)
ORDER BY id DESC
LIMIT :limit;
