-- Workers seen within their lease, how many jobs each runs, and whether alone; with each
-- row, one at least, the store's now. Needs live_held. Locks nothing.
SELECT
    {now}, id, host, pid, version, rowlock, tasks, queues, concurrency, lease,
    started_at, seen_at, held.running, held.alone, gives_way,
    stuck
FROM (SELECT) AS always
LEFT JOIN {schema}.workers ON seen_at + lease >= {now}
CROSS JOIN LATERAL (
    SELECT count(*) AS running, coalesce(bool_or(live.alone), false) AS alone
    FROM {schema}.live
    WHERE status = 'running' AND live.worker = workers.id
) AS held
ORDER BY id;
