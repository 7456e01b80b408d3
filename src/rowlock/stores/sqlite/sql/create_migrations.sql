-- The one table that no migration makes. Runs under the write lock.
CREATE TABLE IF NOT EXISTS rowlock_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
);
