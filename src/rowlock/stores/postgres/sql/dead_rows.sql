-- Of each table of this schema, the live jobs' first, how autovacuum stands: its name,
-- whether it is on for it, about how many rows are dead, from how many on it is due,
-- for how many seconds it hasn't run (null: never), what turns it on, and what stands in
-- for it once. Large values, which are kept apart from a table, are told as a part of
-- it. Locks nothing.
WITH part AS (
    SELECT
        owner.relname, part.oid, part.reltuples, part.reloptions,
        part.oid <> owner.oid AS is_toast
    FROM pg_class AS owner
    JOIN pg_namespace ON pg_namespace.oid = owner.relnamespace
    JOIN pg_class AS part ON part.oid IN (owner.oid, owner.reltoastrelid)
    WHERE nspname = {schema_name} AND owner.relkind = 'r'
)
SELECT
    quote_ident({schema_name}) || '.' || quote_ident(part.relname),
    coalesce(chosen.is_on, true),
    stats.n_dead_tup,
    coalesce(chosen.least, current_setting('autovacuum_vacuum_threshold')::float8)
    + coalesce(chosen.share, current_setting('autovacuum_vacuum_scale_factor')::float8)
    * greatest(part.reltuples, 0),
    extract(
        epoch FROM clock_timestamp() - greatest(stats.last_autovacuum, stats.last_vacuum)
    )::float8,
    'ALTER TABLE ' || quote_ident({schema_name}) || '.' || quote_ident(part.relname)
    || ' RESET (' || CASE WHEN is_toast THEN 'toast.' ELSE '' END
    || 'autovacuum_enabled)',
    'VACUUM ' || quote_ident({schema_name}) || '.' || quote_ident(part.relname)
FROM part
JOIN pg_stat_all_tables AS stats ON stats.relid = part.oid
CROSS JOIN LATERAL (
    SELECT
        bool_and(option_value::boolean)
            FILTER (WHERE option_name = 'autovacuum_enabled') AS is_on,
        max(option_value::float8)
            FILTER (WHERE option_name = 'autovacuum_vacuum_threshold') AS least,
        max(option_value::float8)
            FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor') AS share
    FROM pg_options_to_table(part.reloptions)
) AS chosen
ORDER BY part.relname <> 'live', is_toast, part.relname;
