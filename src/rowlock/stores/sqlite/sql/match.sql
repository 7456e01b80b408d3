-- Of these jobs those whose payload has every one of these fields, newest first. A path
-- is one of SQLite's; a number may be written otherwise, and a null must be there. By id
-- only. Locks nothing.
SELECT id FROM rowlock_rows NOT INDEXED
WHERE id IN (SELECT value FROM json_each(:ids))
    AND NOT EXISTS (
        SELECT 1
        FROM (
            SELECT
                json_extract(value, '$.path') AS path,
                json_extract(value, '$.value') AS value,
                replace(json_type(value, '$.value'), 'integer', 'real') AS kind
            FROM json_each(:fields)
        ) AS field
        WHERE json_extract(payload, field.path) IS NOT field.value
            OR replace(json_type(payload, field.path), 'integer', 'real')
            IS NOT field.kind
    )
ORDER BY id DESC;
