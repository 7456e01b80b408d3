-- Sets up a transaction that somebody else runs, as session.sql sets up ours: what is
-- made means the same whatever is set there. Locks nothing.
SELECT
    set_config('search_path', 'pg_catalog', true),
    set_config('timezone', 'UTC', true),
    set_config('lock_timeout', '500ms', true),
    set_config('statement_timeout', '0', true);
