-- What the fence and the answer of a finish need of these jobs, missing ones left out.
-- Under the write lock.
SELECT
    id, status, claims, attempts, worker, started_at, cancel_requested_at
FROM rowlock_rows
WHERE id IN (SELECT value FROM json_each(:ids));
