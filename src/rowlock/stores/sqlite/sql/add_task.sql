-- Notes a task and its defaults as an app knows them now. Under the write lock.
INSERT INTO rowlock_tasks (name, queue, defaults, seen_at)
VALUES (:name, :queue, :defaults, :now)
ON CONFLICT (name) DO UPDATE SET
    queue = excluded.queue,
    defaults = excluded.defaults,
    seen_at = excluded.seen_at;
