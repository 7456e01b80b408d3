-- Makes the history's partitions of today and the next seven days, where they are
-- missing. Locks as make_partition.sql does.
SELECT {schema}.make_partition(({now} AT TIME ZONE 'UTC')::date + ahead)
FROM generate_series(0, 7) AS ahead;
