-- Says whether this transaction is the one that drops partitions, and has it wait for
-- no lock for longer than a moment, as others wait behind it. Locks that role, until
-- the transaction ends.
SELECT
    pg_try_advisory_xact_lock(hashtextextended({schema_name}, 2)),
    set_config('lock_timeout', '100ms', true);
