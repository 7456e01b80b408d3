-- The days, in UTC, of finished jobs that stayed behind. Needs live_left. Locks nothing.
SELECT DISTINCT (finished_at AT TIME ZONE 'UTC')::date
FROM {schema}.live
WHERE status IN ('succeeded', 'cancelled') AND key_until IS NULL;
