-- The days, in UTC, from today to the seventh from now that have no partition of the
-- history, and whether each is today. Locks nothing.
SELECT day, day = ({now} AT TIME ZONE 'UTC')::date
FROM (
    SELECT ({now} AT TIME ZONE 'UTC')::date + ahead AS day
    FROM generate_series(0, 7) AS ahead
) AS wanted
WHERE NOT EXISTS (
    SELECT FROM pg_inherits
    JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = to_regclass(quote_ident({schema_name}) || '.history')
        AND relname = 'history_' || to_char(day, 'YYYYMMDD')
)
ORDER BY day;
