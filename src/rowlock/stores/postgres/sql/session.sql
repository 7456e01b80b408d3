-- Sets up a connection of our own: nothing of what it needs hangs on the settings of
-- the database, of the role or of a proxy. Locks nothing.
-- The statements here can't change their plan, so it is made once; a lock of
-- somebody's transaction is waited for a second at most (law 18).
-- Our transactions wait for nothing but their own statements: one that stands still has
-- its event loop blocked, perhaps by a synchronous call that waits for this very
-- transaction, and nobody else could end it.
-- A pooler hands the server's session to others after each transaction, and what is set
-- for longer would be theirs. It tells another process's number than the server's own as
-- the connection begins; then all of this lasts until the transaction's end only, and is
-- run again in the next one.
SELECT
    set_config('search_path', 'pg_catalog', is_pooled),
    set_config('timezone', 'UTC', is_pooled),
    set_config('datestyle', 'ISO', is_pooled),
    set_config('intervalstyle', 'postgres', is_pooled),
    set_config('array_nulls', 'on', is_pooled),
    set_config('extra_float_digits', '1', is_pooled),
    set_config('default_transaction_isolation', 'read committed', is_pooled),
    set_config('default_transaction_read_only', 'off', is_pooled),
    set_config('default_transaction_deferrable', 'off', is_pooled),
    set_config('lock_timeout', '1s', is_pooled),
    set_config('statement_timeout', '30s', is_pooled),
    set_config('idle_in_transaction_session_timeout', '5s', is_pooled),
    set_config('idle_session_timeout', '0', is_pooled),
    set_config('plan_cache_mode', 'force_generic_plan', is_pooled),
    set_config('enable_indexscan', 'on', is_pooled),
    set_config('enable_tidscan', 'on', is_pooled),
    set_config('enable_nestloop', 'on', is_pooled),
    set_config('enable_seqscan', 'off', is_pooled),
    set_config('enable_bitmapscan', 'off', is_pooled),
    set_config('enable_hashjoin', 'off', is_pooled),
    set_config('enable_mergejoin', 'off', is_pooled),
    set_config('jit', 'off', is_pooled),
    is_pooled
FROM (SELECT pg_backend_pid() <> %(process)s::integer) AS served (is_pooled);
