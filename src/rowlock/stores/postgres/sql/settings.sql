-- What is set amiss for new sessions in this database: where, the name, the value, and
-- what sets it right. Of this user what is in force, and what is set for other roles
-- that use this schema. Locks nothing.
WITH rule (name, bad, good) AS (
    VALUES
        ('autovacuum', ARRAY['off'], 'on'),
        (
            'default_transaction_isolation', ARRAY['repeatable read', 'serializable'],
            'read committed'
        ),
        ('default_transaction_read_only', ARRAY['on'], 'off'),
        ('fsync', ARRAY['off'], 'on'),
        ('full_page_writes', ARRAY['off'], 'on'),
        ('session_replication_role', ARRAY['replica', 'local'], 'origin'),
        ('synchronous_commit', ARRAY['off'], 'on'),
        ('track_counts', ARRAY['off'], 'on')
),
own AS MATERIALIZED (
    SELECT
        split_part(setting, '=', 1) AS name,
        substr(setting, strpos(setting, '=') + 1) AS value,
        (setrole = 0 OR rolname = session_user) AS is_in_force,
        concat_ws(
            ' in ',
            'the role ' || quote_ident(rolname),
            'the database ' || quote_ident(datname)
        ) AS place,
        CASE WHEN rolname IS NULL
            THEN 'ALTER DATABASE ' || quote_ident(datname)
            ELSE 'ALTER ROLE ' || quote_ident(rolname)
                || coalesce(' IN DATABASE ' || quote_ident(datname), '')
        END || ' RESET ' || split_part(setting, '=', 1) AS cure
    FROM pg_db_role_setting
    CROSS JOIN unnest(setconfig) AS setting
    LEFT JOIN pg_roles ON pg_roles.oid = setrole
    LEFT JOIN pg_database ON pg_database.oid = setdatabase
    WHERE (setdatabase = 0 OR datname = current_database())
        AND (
            setrole = 0
            OR has_schema_privilege(
                setrole, to_regnamespace(quote_ident({schema_name})), 'USAGE'
            )
        )
)
SELECT name, place, value, cure
FROM own
JOIN rule USING (name)
WHERE value = ANY (bad)
UNION ALL
SELECT
    name, 'the server', reset_val,
    'ALTER SYSTEM SET ' || name || ' = ' || quote_literal(good)
FROM pg_settings
JOIN rule USING (name)
WHERE reset_val = ANY (bad)
    AND NOT EXISTS (SELECT FROM own WHERE own.name = rule.name AND is_in_force)
ORDER BY name, place;
