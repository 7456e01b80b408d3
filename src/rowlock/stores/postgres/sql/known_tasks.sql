-- The tasks that apps have told of. Locks nothing.
SELECT name, queue, defaults, seen_at FROM {schema}.tasks ORDER BY name;
