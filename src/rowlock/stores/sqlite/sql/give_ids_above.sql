-- Has the next job get an id above this one (law 20). Under the write lock.
INSERT INTO sqlite_sequence (name, seq) VALUES ('rowlock_rows', :last_id);
