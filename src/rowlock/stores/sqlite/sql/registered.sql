-- The tasks that apps and workers have told of, by name. Locks nothing.
SELECT name, queue, defaults, seen_at
FROM rowlock_tasks
ORDER BY name;
