-- Pauses a queue or a task as another store did (law 11); one that is paused here stays
-- as it is. Under the write lock.
INSERT INTO rowlock_pauses (queue, task, until, reason, by, at)
VALUES (:queue, :task, :until, :reason, :by, :at)
ON CONFLICT DO NOTHING;
