-- Workers seen within their lease, and how many jobs each runs. Needs
-- rowlock_leases, since running jobs are few. Locks nothing.
SELECT
    id, host, pid, version, rowlock, tasks, queues, concurrency, lease, started_at,
    seen_at,
    (
        SELECT count(*) FROM rowlock_rows INDEXED BY rowlock_leases
        WHERE status = 'running' AND worker = rowlock_workers.id
    )
FROM rowlock_workers
WHERE seen_at + lease >= :now
ORDER BY id;
