-- How these jobs stand, in both relations; missing ids are left out. Locks nothing.
SELECT id, status, claims
FROM {schema}.live
WHERE id = ANY (%(ids)s::bigint[])
UNION ALL
SELECT id, status, claims
FROM {schema}.history
WHERE id = ANY (%(ids)s::bigint[]);
