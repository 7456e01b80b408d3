-- Workers seen within their lease, how many jobs each runs, and whether alone. Needs
-- rowlock_leases, since running jobs are few. Locks nothing.
SELECT
    id, host, pid, version, rowlock, tasks, queues, concurrency, lease, started_at,
    seen_at, coalesce(held.running, 0), coalesce(held.alone, 0), gives_way,
    stuck
FROM rowlock_workers
LEFT JOIN (
    SELECT worker, count(*) AS running, max(alone) AS alone
    FROM rowlock_rows INDEXED BY rowlock_leases
    WHERE status = 'running'
    GROUP BY worker
) AS held ON held.worker = rowlock_workers.id
WHERE seen_at + lease >= :now
ORDER BY id;
