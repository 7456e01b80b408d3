-- The rights that this user lacks to do what a worker and an operator do. Locks nothing.
SELECT 'USAGE and CREATE on the schema'
WHERE NOT has_schema_privilege({schema_name}, 'USAGE')
    OR NOT has_schema_privilege({schema_name}, 'CREATE')
UNION ALL
SELECT string_agg(privilege, ', ' ORDER BY privilege) || ' on ' || relname
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
WHERE nspname = {schema_name}
    AND (
        relname IN (
            'live', 'history', 'pauses', 'workers', 'tasks', 'replay_rules', 'once_keys'
        )
        OR relname IN ('jobs', 'migrations') AND privilege = 'SELECT'
    )
    AND NOT has_table_privilege(pg_class.oid, privilege)
GROUP BY relname
UNION ALL
SELECT 'USAGE on the sequence ' || relname
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = {schema_name}
    -- Asked of anything but a sequence, it would be an error.
    AND CASE WHEN relkind = 'S'
        THEN NOT has_sequence_privilege(pg_class.oid, 'USAGE') ELSE false END
UNION ALL
SELECT 'to own ' || relname
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = {schema_name} AND relname = 'history'
    AND NOT pg_has_role(relowner, 'USAGE')
UNION ALL
SELECT 'EXECUTE on ' || proname
FROM pg_proc
JOIN pg_namespace ON pg_namespace.oid = pronamespace
WHERE nspname = {schema_name}
    AND proname IN (
        'iso', 'noted', 'fits', 'same', 'add', 'add_each', 'make_partition', 'hold',
        'has_day'
    )
    AND NOT has_function_privilege(pg_proc.oid, 'EXECUTE');
