-- The days, in UTC, on which these running jobs would be finished now. Locks nothing.
SELECT DISTINCT (greatest({now}, started_at) AT TIME ZONE 'UTC')::date
FROM {schema}.live
WHERE id = ANY (%(ids)s::bigint[]);
