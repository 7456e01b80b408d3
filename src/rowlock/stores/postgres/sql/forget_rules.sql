-- Drops rules of automatic replay with which nobody took the turn for a day beyond it.
-- Locks their rows, and passes by those that are locked.
DELETE FROM {schema}.replay_rules
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.replay_rules
    WHERE turn_at + every < {now} - interval '1 day'
    FOR UPDATE SKIP LOCKED
));
