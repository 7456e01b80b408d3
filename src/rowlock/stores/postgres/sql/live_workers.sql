-- Workers seen within their lease, and how many jobs each runs; with each row, one at
-- least, the store's now. Needs live_held. Locks nothing.
SELECT
    {now}, id, host, pid, version, rowlock, tasks, queues, concurrency, lease,
    started_at, seen_at,
    (
        SELECT count(*) FROM {schema}.live
        WHERE status = 'running' AND worker = workers.id
    )
FROM (SELECT) AS always
LEFT JOIN {schema}.workers ON seen_at + lease >= {now}
ORDER BY id;
