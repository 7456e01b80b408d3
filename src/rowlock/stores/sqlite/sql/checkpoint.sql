-- Copies what it can of the write-ahead log into the database, in nobody's way.
-- Takes the checkpoint lock; answers whether it was blocked, the frames there are, and
-- those copied.
PRAGMA wal_checkpoint(PASSIVE);
