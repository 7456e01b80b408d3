-- Deletes jobs that ended before the age for their status, the oldest first (laws 12,
-- 13), where their day isn't dropped whole: from an instant on. An age of a day or more
-- counts in whole days, so that what a drop will take isn't deleted before. Needs
-- history_finished, and reads none that is younger than both ages. Locks the rows, and
-- passes by those that are locked.
WITH aged AS MATERIALIZED (
    SELECT
        array_agg(
            CASE WHEN kept.age < interval '1 day' THEN {now} - kept.age
                ELSE date_trunc('day', {now} - kept.age, 'UTC') - interval '1 microsecond'
            END
            ORDER BY kept.place
        ) AS until
    FROM (
        SELECT micros * interval '1 microsecond', place
        FROM unnest(ARRAY[%(succeeded)s::bigint, %(cancelled)s::bigint])
            WITH ORDINALITY AS each (micros, place)
    ) AS kept (age, place)
),
old AS MATERIALIZED (
    SELECT id, finished_at FROM {schema}.history
    WHERE finished_at >= coalesce(%(since)s::timestamptz, '-infinity')
        AND finished_at <= (SELECT greatest(until[1], until[2]) FROM aged)
        AND finished_at <= CASE status
            WHEN 'succeeded' THEN (SELECT until[1] FROM aged)
            ELSE (SELECT until[2] FROM aged)
        END
    ORDER BY finished_at
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.history
USING old
WHERE history.id = old.id AND history.finished_at = old.finished_at
RETURNING history.id;
