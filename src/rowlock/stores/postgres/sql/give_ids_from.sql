-- Has the next job get this id (law 20). A rollback takes it back, as none does a
-- setval. Locks the sequence against all who want an id.
ALTER SEQUENCE {schema}.ids RESTART WITH {first};
