-- Notes tasks and their defaults as an app knows them now. Locks their rows, by name.
INSERT INTO {schema}.tasks (name, queue, defaults, seen_at)
SELECT task.name, task.queue, task.defaults, {now}
FROM unnest(%(names)s::text[], %(queues)s::text[], %(defaults)s::json[])
    AS task (name, queue, defaults)
ORDER BY task.name COLLATE "C"
ON CONFLICT (name) DO UPDATE SET
    queue = excluded.queue,
    defaults = excluded.defaults,
    seen_at = excluded.seen_at;
