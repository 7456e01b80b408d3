-- Of these jobs those whose payload has every one of these fields, in no order; a field
-- is named by its path, and a null must be there. Locks nothing.
SELECT id
FROM (
    SELECT id, payload FROM {schema}.live WHERE id = ANY (%(ids)s::bigint[])
    UNION ALL
    SELECT id, payload FROM {schema}.history WHERE id = ANY (%(ids)s::bigint[])
) AS job
WHERE NOT EXISTS (
    SELECT FROM jsonb_array_elements(%(fields)s::jsonb) AS field
    WHERE (job.payload #> ARRAY(SELECT jsonb_array_elements_text(field -> 'path')))::jsonb
        IS DISTINCT FROM field -> 'value'
);
