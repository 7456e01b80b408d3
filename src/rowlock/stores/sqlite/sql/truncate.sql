-- Copies the whole write-ahead log into the database and empties it. Takes the
-- checkpoint lock, then the write lock, and waits for readers as long as busy_timeout
-- says; answers as checkpoint.sql does.
PRAGMA wal_checkpoint(TRUNCATE);
