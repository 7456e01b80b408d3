-- A worker's sign of life. Under the write lock.
UPDATE rowlock_workers SET seen_at = :now WHERE id = :worker;
