-- The id of the row that this connection added last.
SELECT last_insert_rowid();
