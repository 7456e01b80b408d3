-- Lets nobody write here before this transaction ends, since jobs are copied in: whoever
-- tries waits for a second at most (law 18). Locks all tables, in this order, against
-- those who write; whoever reads is in nobody's way.
LOCK TABLE {schema}.live, {schema}.history, {schema}.pauses, {schema}.workers,
    {schema}.tasks, {schema}.once_keys IN EXCLUSIVE MODE;
