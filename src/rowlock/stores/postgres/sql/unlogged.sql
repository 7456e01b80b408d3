-- What of this schema a crash of the server would empty, and what prevents it. Locks
-- nothing.
SELECT
    quote_ident(nspname) || '.' || quote_ident(relname),
    CASE relkind WHEN 'S' THEN 'ALTER SEQUENCE ' ELSE 'ALTER TABLE ' END
    || quote_ident(nspname) || '.' || quote_ident(relname) || ' SET LOGGED'
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = {schema_name} AND relkind IN ('r', 'S') AND relpersistence = 'u'
ORDER BY relname;
