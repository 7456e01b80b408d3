-- Drops rules of automatic replay with which nobody took the turn for a day beyond it.
-- Under the write lock.
DELETE FROM rowlock_replay_rules WHERE turn_at + every < :since;
