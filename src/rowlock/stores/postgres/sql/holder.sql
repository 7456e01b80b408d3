-- Who has the oldest of the transactions that lock a table or view of this schema, and
-- since when, where that may be seen. Locks nothing.
SELECT pid, usename::text, application_name, xact_start
FROM pg_stat_activity
WHERE pid <> pg_backend_pid()
    AND pid IN (
        SELECT pg_locks.pid
        FROM pg_locks
        JOIN pg_class ON pg_class.oid = relation
        JOIN pg_namespace ON pg_namespace.oid = relnamespace
        JOIN pg_database ON pg_database.oid = pg_locks.database
        WHERE granted AND nspname = {schema_name} AND datname = current_database()
    )
ORDER BY xact_start
LIMIT 1;
