-- Notes tasks as another store knew them; what an app has told this one stands. Under
-- the locks of lock_target.sql.
INSERT INTO {schema}.tasks (name, queue, defaults, seen_at)
SELECT task.name, task.queue, task.defaults, task.seen_at
FROM unnest(
    %(names)s::text[], %(queues)s::text[], %(defaults)s::json[],
    %(seen_ats)s::timestamptz[]
) AS task (name, queue, defaults, seen_at)
ON CONFLICT DO NOTHING;
