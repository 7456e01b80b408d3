-- Who keeps dead rows of this database from being removed, the oldest first: sessions
-- and standbys by what they may still see, prepared transactions, replication slots.
-- Kind, name, user, application, state, last query; for how long, and over how many
-- transactions; what ends it; whether it has locked jobs. What this user may not know of
-- it is null. Locks nothing.
SELECT
    kind, name, usename, application_name, state, query, held_for, held_over, cure,
    has_jobs
FROM (
    SELECT
        'session' AS kind, pid::text AS name, usename::text, application_name,
        state, left(query, 100) AS query,
        extract(epoch FROM clock_timestamp() - xact_start)::float8 AS held_for,
        greatest(age(backend_xmin), age(backend_xid)) AS held_over,
        'SELECT pg_terminate_backend(' || pid || ')' AS cure,
        pid IN (
            SELECT pg_locks.pid
            FROM pg_locks
            JOIN pg_class ON pg_class.oid = relation
            JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE mode = 'RowShareLock' AND nspname = {schema_name}
                AND relname = 'live'
                AND database = (
                    SELECT oid FROM pg_database WHERE datname = current_database()
                )
        ) AS has_jobs
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
        -- Nobody waits for what a vacuum sees.
        AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
    UNION ALL
    SELECT
        'prepared', quote_literal(gid), owner::text, NULL, NULL, NULL,
        extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction),
        'ROLLBACK PREPARED ' || quote_literal(gid), false
    FROM pg_prepared_xacts
    WHERE database = current_database()
    UNION ALL
    SELECT
        CASE WHEN active THEN 'used slot' ELSE 'slot' END, quote_ident(slot_name), NULL,
        NULL, NULL, NULL, NULL, age(xmin),
        CASE WHEN NOT active
            THEN 'SELECT pg_drop_replication_slot(' || quote_literal(slot_name) || ')'
        END, false
    FROM pg_replication_slots
    WHERE xmin IS NOT NULL AND (database IS NULL OR database = current_database())
    UNION ALL
    SELECT
        'standby', pid::text, usename::text, application_name, NULL, NULL, NULL,
        age(backend_xmin), NULL, false
    FROM pg_stat_replication
    WHERE backend_xmin IS NOT NULL
) AS holder
ORDER BY held_over DESC, held_for DESC NULLS LAST
LIMIT 10;
