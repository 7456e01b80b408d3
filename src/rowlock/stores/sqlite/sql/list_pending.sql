-- Ids of pending jobs that fit (parts/fits.sql), newest first. Needs rowlock_pending:
-- few among many finished ones are found without reading those. Locks nothing.
SELECT id FROM rowlock_rows INDEXED BY rowlock_pending
WHERE status = 'pending'
    AND id < coalesce(:after, 9223372036854775807)
    AND {fits}
ORDER BY id DESC
LIMIT :limit;
