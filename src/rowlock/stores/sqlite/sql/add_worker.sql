-- Shows a worker to operators; again, it keeps when it started. Under the write lock.
INSERT INTO rowlock_workers (
    id, host, pid, version, rowlock, tasks, queues, concurrency, lease, gives_way,
    stuck, started_at, seen_at
)
VALUES (
    :id, :host, :pid, :version, :rowlock, :tasks, :queues, :concurrency, :lease,
    :gives_way, :stuck, :now, :now
)
ON CONFLICT (id) DO UPDATE SET
    host = excluded.host,
    pid = excluded.pid,
    version = excluded.version,
    rowlock = excluded.rowlock,
    tasks = excluded.tasks,
    queues = excluded.queues,
    concurrency = excluded.concurrency,
    lease = excluded.lease,
    gives_way = excluded.gives_way,
    stuck = excluded.stuck,
    seen_at = excluded.seen_at;
