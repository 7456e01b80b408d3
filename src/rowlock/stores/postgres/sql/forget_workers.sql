-- Drops workers that were not seen for a day. Locks their rows, and passes by those
-- that are locked.
DELETE FROM {schema}.workers
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.workers
    WHERE seen_at < {now} - interval '1 day'
    FOR UPDATE SKIP LOCKED
));
