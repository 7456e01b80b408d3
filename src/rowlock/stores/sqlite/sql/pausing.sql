-- The pauses in force. Locks nothing; a claim runs it under the write lock (law 11).
SELECT queue, task, until, reason, by, at
FROM rowlock_pauses
WHERE until IS NULL OR until > :now
ORDER BY queue, task;
