-- The tasks that apps have told of. Locks nothing.
SELECT name, queue, defaults, seen_at FROM rowlock_tasks ORDER BY name;
