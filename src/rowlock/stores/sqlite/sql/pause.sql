-- Pauses one queue or one task, after resume.sql has ended an earlier pause of it
-- (law 11). Under the write lock.
INSERT INTO rowlock_pauses (queue, task, until, reason, by, at)
VALUES (:queue, :task, :until, :reason, :by, :now);
