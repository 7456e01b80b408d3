-- Lets nobody change a job here, nor a worker begin, before this transaction ends, since
-- all was copied and is about to count elsewhere. Whoever tries waits for a second at
-- most (law 18). Locks the tables, in this order, against those who write.
LOCK TABLE {schema}.live, {schema}.history, {schema}.workers, {schema}.once_keys
    IN SHARE MODE;
