-- Gives a role all that a worker does. Locks the history and its partitions against
-- everybody, where they were another role's.
SELECT {schema}.grant_worker(%(role)s::text::name);
