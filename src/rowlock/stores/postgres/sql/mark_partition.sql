-- Notes on a partition that it goes, before it is detached: what is left of it, however
-- this process ends, is told from what somebody detached to keep. Locks it against other
-- changes of its shape, in nobody's way who reads or writes it.
COMMENT ON TABLE {schema}.{partition} IS 'to be dropped';
