-- Shows a worker to operators; again, it keeps when it started. Locks its row.
INSERT INTO {schema}.workers (
    id, host, pid, version, rowlock, tasks, queues, concurrency, lease, gives_way,
    stuck, started_at, seen_at, clock_skew
)
VALUES (
    %(id)s::text, %(host)s::text, %(pid)s::integer, %(version)s::text,
    %(rowlock)s::text, %(tasks)s::text[], %(queues)s::text[], %(concurrency)s::integer,
    %(lease)s::bigint * interval '1 microsecond', %(gives_way)s::boolean,
    %(stuck)s::bigint[], {now}, {now},
    %(clock_skew)s::bigint * interval '1 microsecond'
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
    seen_at = excluded.seen_at,
    clock_skew = excluded.clock_skew;
