-- Ids of jobs that fit (parts/fits.sql), of these only, newest first. Locks nothing. By
-- id only: the planner would read all that fit.
SELECT id FROM rowlock_rows NOT INDEXED
WHERE id IN (SELECT value FROM json_each(:ids))
    AND id < coalesce(:after, 9223372036854775807)
    AND (:status IS NULL OR status = :status)
    AND (:idempotency_key IS NULL OR idempotency_key = :idempotency_key)
    AND {fits}
ORDER BY id DESC
LIMIT :limit;
