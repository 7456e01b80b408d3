-- Frees keys that jobs have kept after their end for as long as they were to, those that
-- are over the longest first (laws 10, 13). Needs rowlock_kept_keys. Under the write lock.
UPDATE rowlock_rows
SET key_freed = 1
WHERE id IN (
    SELECT id FROM rowlock_rows INDEXED BY rowlock_kept_keys
    WHERE key_until IS NOT NULL AND key_until <= :now
    ORDER BY key_until
    LIMIT :limit
);
