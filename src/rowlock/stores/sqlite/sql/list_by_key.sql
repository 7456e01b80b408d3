-- Ids of jobs that fit (parts/fits.sql) and have this idempotency key, finished ones
-- too, newest first. Needs rowlock_keys. Locks nothing.
SELECT id FROM rowlock_rows INDEXED BY rowlock_keys
WHERE idempotency_key = :idempotency_key
    AND id < coalesce(:after, 9223372036854775807)
    AND (:status IS NULL OR status = :status)
    AND {fits}
ORDER BY id DESC
LIMIT :limit;
