-- Live workers, where each runs, and by how many seconds at least its clock was ahead of
-- this one when it last registered. Locks nothing.
SELECT id, host, pid, extract(epoch FROM clock_skew)::float8
FROM {schema}.workers
WHERE seen_at + lease >= {now}
ORDER BY id;
