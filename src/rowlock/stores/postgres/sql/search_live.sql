-- Ids of unfinished jobs and dead letters that fit (parts/fits.sql), newest first,
-- below an id. Planned with its parameters known, so that what they leave out is not
-- read, and no row's payload in any case. Locks nothing.
SELECT id
FROM {schema}.live
WHERE {fits}
ORDER BY id DESC
LIMIT %(limit)s::bigint;
