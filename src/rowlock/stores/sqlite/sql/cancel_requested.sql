-- Jobs of these that run and were asked to cancel, with the claim that holds each
-- (law 21). Reads each by its id, as what runs may be much more. Locks nothing.
SELECT id, claims
FROM rowlock_rows NOT INDEXED
WHERE id IN (SELECT value FROM json_each(:ids))
    AND status = 'running' AND cancel_requested_at IS NOT NULL;
