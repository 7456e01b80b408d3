-- Who keeps a partition from being detached or dropped: of those who hold a lock on it
-- or on the history, or may still see it, the one whose transaction is the oldest. What
-- this user may not know of it is null. Locks nothing.
SELECT pid, usename, application_name, client_addr::text, state, xact_start
FROM pg_stat_activity AS session
WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND (
        backend_xmin IS NOT NULL
        OR EXISTS (
            SELECT FROM pg_locks
            JOIN pg_class ON pg_class.oid = pg_locks.relation
            JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
            WHERE pg_locks.pid = session.pid AND pg_locks.granted
                AND nspname = {schema_name}
                AND relname IN ('history', %(partition)s::text)
        )
    )
ORDER BY xact_start
LIMIT 1;
