-- Pauses queues and tasks as another store did (law 11); what is paused here stays as it
-- is. Under the locks of lock_target.sql.
INSERT INTO {schema}.pauses (queue, task, until, reason, by, at)
SELECT pause.queue, pause.task, pause.until, pause.reason, pause.by, pause.at
FROM unnest(
    %(queues)s::text[], %(tasks)s::text[], %(untils)s::timestamptz[],
    %(reasons)s::text[], %(bys)s::text[], %(ats)s::timestamptz[]
) AS pause (queue, task, until, reason, by, at)
ON CONFLICT DO NOTHING;
