-- The pauses in force. Locks nothing.
SELECT queue, task, until, reason, by, at
FROM {schema}.pauses
WHERE until IS NULL OR until > {now}
ORDER BY queue, task;
