-- A number that changes when another connection has committed. Locks nothing; asked on
-- the writer's connection, whose own commits don't count.
PRAGMA data_version;
