-- How commits reach the file: `wal` by a write-ahead log. Locks nothing.
PRAGMA journal_mode;
