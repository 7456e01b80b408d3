-- Finished jobs that stayed behind among the live ones, as their day had no partition:
-- the day in UTC, and how many. Needs live_left. Locks nothing.
SELECT (finished_at AT TIME ZONE 'UTC')::date, count(*)
FROM {schema}.live
WHERE status IN ('succeeded', 'cancelled') AND key_until IS NULL
GROUP BY 1
ORDER BY 1;
