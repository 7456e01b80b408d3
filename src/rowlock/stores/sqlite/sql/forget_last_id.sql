-- Makes room for what give_ids_above.sql writes: that table has no key. Under the write
-- lock.
DELETE FROM sqlite_sequence WHERE name = 'rowlock_rows';
