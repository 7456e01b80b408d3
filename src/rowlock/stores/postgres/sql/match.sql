-- Of these jobs those whose payload has these fields, in no order. Locks nothing.
SELECT id
FROM (
    SELECT id, payload FROM {schema}.live WHERE id = ANY (%(ids)s::bigint[])
    UNION ALL
    SELECT id, payload FROM {schema}.history WHERE id = ANY (%(ids)s::bigint[])
) AS job
WHERE {schema}.fits(payload, %(fields)s::jsonb);
