-- Shows a worker no longer. Under the write lock.
DELETE FROM rowlock_workers WHERE id = :id;
