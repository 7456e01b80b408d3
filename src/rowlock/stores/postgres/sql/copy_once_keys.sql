-- Adds keys of `once` as they came in another store; one that came here, too, stays as it
-- is. Under the locks of lock_target.sql.
INSERT INTO {schema}.once_keys (key, at)
SELECT key, at
FROM unnest(%(keys)s::text[], %(ats)s::timestamptz[]) AS arriving (key, at)
ON CONFLICT (key) DO NOTHING;
