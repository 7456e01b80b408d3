-- The version of the code that a worker runs, as it has registered. Under the write lock.
SELECT version FROM rowlock_workers WHERE id = :worker;
