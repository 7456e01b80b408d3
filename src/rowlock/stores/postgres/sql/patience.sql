-- Sets for how long this transaction waits for locks. Locks nothing.
SELECT set_config('lock_timeout', %(span)s::text, true);
