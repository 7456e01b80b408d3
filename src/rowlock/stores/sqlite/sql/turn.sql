-- When a worker last took the turn with a rule. Under the write lock.
SELECT turn_at FROM rowlock_replay_rules WHERE task = :task;
