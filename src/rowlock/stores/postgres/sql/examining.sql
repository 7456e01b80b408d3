-- Sets a transaction up in which nobody waits long, neither it nor others for it: the
-- doctor looks at what may be ill. Planned as usual. Locks nothing.
SELECT
    set_config('statement_timeout', '5s', true),
    set_config('lock_timeout', '100ms', true),
    set_config('plan_cache_mode', 'force_custom_plan', true),
    set_config('enable_seqscan', 'on', true),
    set_config('enable_bitmapscan', 'on', true),
    set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true);
