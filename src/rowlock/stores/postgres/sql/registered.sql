-- The tasks that apps and workers have told of, by name. Needs the primary key. Locks
-- nothing.
SELECT name, queue, defaults, seen_at
FROM {schema}.tasks
ORDER BY name;
