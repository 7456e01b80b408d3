-- Keys of `once` with when they came, behind a key, to be copied. Needs the primary key.
-- Locks nothing.
SELECT key, at FROM rowlock_once
WHERE key > :after
ORDER BY key
LIMIT :limit;
