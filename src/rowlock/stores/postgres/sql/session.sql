-- Sets up a connection of our own: nothing of what it needs hangs on the settings of
-- the database, of the role or of a proxy. Locks nothing.
-- The statements here can't change their plan, so it is made once; a lock of
-- somebody's transaction is waited for a second at most (law 18).
-- Our transactions wait for nothing but their own statements: one that stands still has
-- its event loop blocked, perhaps by a synchronous call that waits for this very
-- transaction, and nobody else could end it.
SELECT
    set_config('search_path', 'pg_catalog', false),
    set_config('timezone', 'UTC', false),
    set_config('datestyle', 'ISO', false),
    set_config('intervalstyle', 'postgres', false),
    set_config('array_nulls', 'on', false),
    set_config('extra_float_digits', '1', false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('default_transaction_read_only', 'off', false),
    set_config('default_transaction_deferrable', 'off', false),
    set_config('lock_timeout', '1s', false),
    set_config('statement_timeout', '30s', false),
    set_config('idle_in_transaction_session_timeout', '5s', false),
    set_config('idle_session_timeout', '0', false),
    set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('enable_indexscan', 'on', false),
    set_config('enable_tidscan', 'on', false),
    set_config('enable_nestloop', 'on', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    set_config('jit', 'off', false);
