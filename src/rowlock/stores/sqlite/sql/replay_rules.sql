-- The rules of automatic replay, with their last turn and what its probe said, by task.
-- Locks nothing.
SELECT
    task, every, "limit", rate, turn_at, worker, probed_at, passed, error, replayed
FROM rowlock_replay_rules
ORDER BY task;
