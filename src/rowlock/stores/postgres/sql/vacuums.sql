-- How many autovacuum workers there may be, and how many are at work. Locks nothing.
SELECT
    current_setting('autovacuum_max_workers')::integer,
    count(*)::integer
FROM pg_stat_activity
WHERE backend_type = 'autovacuum worker';
