-- How these jobs stand, for a verb to decide on; missing ids are left out. Under the
-- write lock, so that it still holds when the verb writes.
SELECT
    +id, +status, +claims, +attempts, +worker, +started_at, +cancel_requested_at, +task,
    +idempotency_key, +leased_until, +auto_replays
FROM rowlock_rows
WHERE id IN (SELECT value FROM json_each(:ids));
