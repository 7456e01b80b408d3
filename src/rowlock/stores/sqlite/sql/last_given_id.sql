-- The last id that was ever given, no row where none was (law 20). Locks nothing.
SELECT seq FROM sqlite_sequence WHERE name = 'rowlock_rows';
