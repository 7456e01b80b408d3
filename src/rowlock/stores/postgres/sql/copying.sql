-- Lets this transaction take its time, since it copies all there is: it stands still
-- while the other store reads or writes, though not for ever. A lock is waited for longer
-- than autovacuum needs to give way. Locks nothing.
SELECT
    set_config('statement_timeout', '0', true),
    set_config('idle_in_transaction_session_timeout', '5min', true),
    set_config('lock_timeout', '5s', true);
