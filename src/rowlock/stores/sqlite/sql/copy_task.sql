-- Notes a task as another store knew it; what an app has told this one stands. Under the
-- write lock.
INSERT INTO rowlock_tasks (name, queue, defaults, seen_at)
VALUES (:name, :queue, :defaults, :seen_at)
ON CONFLICT DO NOTHING;
