-- Forgets keys of `once` that came before an age, the oldest first (law 13). Needs
-- once_keys_at. Locks the rows, and passes by those that are locked.
DELETE FROM {schema}.once_keys
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.once_keys
    WHERE at <= {now} - %(kept)s::bigint * interval '1 microsecond'
    ORDER BY at
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING key;
