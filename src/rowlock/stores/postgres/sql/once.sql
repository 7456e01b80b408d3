-- Takes a key that comes for the first time; no row is one that came before. Locks the
-- new row; waits where another transaction is adding it, since that may roll back.
INSERT INTO {schema}.once_keys (key, at)
VALUES (%(key)s::text, {now})
ON CONFLICT (key) DO NOTHING
RETURNING key;
