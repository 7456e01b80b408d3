-- Notes what a probe said, if the turn is still that worker's. Answers a row where it
-- is. Under the write lock.
UPDATE rowlock_replay_rules
SET probed_at = :now, passed = :passed, error = :error, replayed = :replayed
WHERE task = :task AND worker = :worker
RETURNING task;
