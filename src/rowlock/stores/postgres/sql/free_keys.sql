-- Frees keys that jobs have kept after their end for as long as they were to, those that
-- are over the longest first (laws 10, 13). Needs live_kept_keys. Locks the rows, and
-- passes by those that are locked.
UPDATE {schema}.live
SET key_freed = true
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.live
    WHERE key_until IS NOT NULL AND key_until <= {now}
    ORDER BY key_until
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING id;
