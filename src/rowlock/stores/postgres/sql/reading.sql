-- Lets the rest of this transaction be planned as usual, with its parameters known: a
-- list's filters are as many as there are questions. Locks nothing.
SELECT
    set_config('plan_cache_mode', 'force_custom_plan', true),
    set_config('enable_seqscan', 'on', true),
    set_config('enable_bitmapscan', 'on', true),
    set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true);
