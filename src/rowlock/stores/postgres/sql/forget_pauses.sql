-- Drops pauses that have ended. Locks their rows, and passes by those that are locked.
DELETE FROM {schema}.pauses
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.pauses
    WHERE until <= {now}
    FOR UPDATE SKIP LOCKED
));
