-- Ends the pause of one queue or one task, and says whether it was still in force.
-- Under the write lock.
DELETE FROM rowlock_pauses
WHERE queue IS :queue AND task IS :task
RETURNING until IS NULL OR until > :now;
