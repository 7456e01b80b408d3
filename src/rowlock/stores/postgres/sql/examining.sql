-- Sets a transaction up in which nobody waits long, neither it nor others for it: the
-- doctor looks at what may be ill. Locks nothing.
SELECT
    set_config('statement_timeout', '5s', true),
    set_config('lock_timeout', '100ms', true);
