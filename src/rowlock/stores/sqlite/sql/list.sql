-- Ids of jobs that fit (parts/fits.sql), newest first: read from the newest on, so that
-- a page of what most jobs are comes at once. Locks nothing.
SELECT id FROM rowlock_rows
WHERE id < coalesce(:after, 9223372036854775807)
    AND (:status IS NULL OR status = :status)
    AND {fits}
ORDER BY id DESC
LIMIT :limit;
