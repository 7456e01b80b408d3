-- The last id that was ever given, 0 where none was (law 20). Locks nothing.
SELECT coalesce(pg_sequence_last_value({ids}), 0);
