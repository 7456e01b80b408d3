-- How many jobs of each queue ended within a span, however they did. Needs
-- history_finished and live_failed. Locks nothing.
SELECT queue, count(*)
FROM (
    SELECT queue
    FROM {schema}.history
    WHERE finished_at > {now} - %(span)s::bigint * interval '1 microsecond'
    UNION ALL
    SELECT queue
    FROM {schema}.live
    WHERE status = 'failed'
        AND finished_at > {now} - %(span)s::bigint * interval '1 microsecond'
) AS ended
GROUP BY queue;
