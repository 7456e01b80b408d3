-- Sets for how long the statements of this connection wait, whatever they wait for, and
-- says whether it is the one that detaches partitions. Locks that role, until the
-- connection ends.
SELECT
    pg_try_advisory_lock(hashtextextended({schema_name}, 2)),
    set_config('statement_timeout', %(span)s::text, false),
    set_config('lock_timeout', '0', false);
