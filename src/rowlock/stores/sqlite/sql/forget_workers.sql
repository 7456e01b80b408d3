-- Drops workers that were not seen since an instant. Under the write lock.
DELETE FROM rowlock_workers WHERE seen_at < :since;
