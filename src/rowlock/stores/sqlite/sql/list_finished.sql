-- Ids of failed or cancelled jobs that fit (parts/fits.sql), newest first. Needs
-- rowlock_finished: few among many that succeeded are found without reading those.
-- Locks nothing.
SELECT id FROM rowlock_rows INDEXED BY rowlock_finished
WHERE status = :status AND finished_at IS NOT NULL
    AND id < coalesce(:after, 9223372036854775807)
    AND {fits}
ORDER BY id DESC
LIMIT :limit;
