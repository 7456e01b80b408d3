-- Lets the statements of this transaction take their time, locks excepted. Locks nothing.
SELECT set_config('statement_timeout', '0', true);
