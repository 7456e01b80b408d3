-- How many autovacuum workers there may be, how many are at work, and what allows for
-- more. Locks nothing.
SELECT
    most,
    (
        SELECT count(*) FROM pg_stat_activity
        WHERE backend_type = 'autovacuum worker'
    ),
    'ALTER SYSTEM SET autovacuum_max_workers = ' || 2 * most
FROM current_setting('autovacuum_max_workers') AS setting
CROSS JOIN LATERAL (SELECT setting::integer AS most) AS allowed;
