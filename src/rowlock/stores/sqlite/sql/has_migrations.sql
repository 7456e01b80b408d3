-- Whether this database has ever been migrated. Locks nothing.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'rowlock_migrations';
