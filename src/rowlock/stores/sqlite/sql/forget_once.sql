-- Forgets keys of `once` that came before an instant, the oldest first (law 13). Needs
-- rowlock_once_at. Under the write lock.
DELETE FROM rowlock_once
WHERE key IN (
    SELECT key FROM rowlock_once INDEXED BY rowlock_once_at
    WHERE at <= :since
    ORDER BY at
    LIMIT :limit
);
