-- Ids of running jobs that fit (parts/fits.sql), newest first. Needs rowlock_leases,
-- since running jobs are few. Locks nothing.
SELECT id FROM rowlock_rows INDEXED BY rowlock_leases
WHERE status = 'running'
    AND id < coalesce(:after, 9223372036854775807)
    AND {fits}
ORDER BY id DESC
LIMIT :limit;
