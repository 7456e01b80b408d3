-- The id of the row that this connection added last. Locks nothing; under the write lock
-- of the insert before it.
SELECT last_insert_rowid();
