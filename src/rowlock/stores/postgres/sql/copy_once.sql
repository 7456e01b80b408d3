-- Keys of `once` with when they came, behind a key, to be copied. Needs the primary key.
-- Locks nothing.
SELECT key, at
FROM {schema}.once_keys
WHERE key > %(after)s::text
ORDER BY key
LIMIT %(limit)s::bigint;
