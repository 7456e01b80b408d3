-- Whether this schema has ever been migrated. Locks nothing.
SELECT EXISTS (
    SELECT FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = {schema_name} AND relname = 'migrations'
);
