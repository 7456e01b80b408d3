-- Deletes finished jobs that stayed behind and are past the age for their status, the
-- oldest first (laws 12, 13): their days may have been dropped while they kept their
-- keys. Needs live_left. Locks the rows, and passes by those that are locked.
DELETE FROM {schema}.live
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.live
    WHERE status IN ('succeeded', 'cancelled') AND key_until IS NULL
        AND finished_at <= {now} - interval '1 microsecond' * CASE status
            WHEN 'succeeded' THEN %(succeeded)s::bigint ELSE %(cancelled)s::bigint
        END
    ORDER BY finished_at
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING id;
