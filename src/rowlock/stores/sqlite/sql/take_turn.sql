-- Takes the turn with a rule of automatic replay, where that of another is over, or the
-- clock was set back since. Answers a row where it was taken. Under the write lock.
INSERT INTO rowlock_replay_rules (task, every, "limit", rate, turn_at, worker)
VALUES (:task, :every, :limit, :rate, :now, :worker)
ON CONFLICT (task) DO UPDATE SET
    every = excluded.every,
    "limit" = excluded."limit",
    rate = excluded.rate,
    turn_at = excluded.turn_at,
    worker = excluded.worker
WHERE turn_at <= :now - :every OR turn_at > :now
RETURNING task;
