-- Takes these jobs for a worker, in no order (laws 3, 5). Under the write lock, in
-- which they were chosen. By id only: the planner would read all pending jobs.
UPDATE rowlock_rows NOT INDEXED
SET
    status = 'running',
    claims = claims + 1,
    attempts = attempts + 1,
    leased_until = :leased_until,
    worker = :worker,
    alone = :alone,
    abandoned = 0,
    started_at = :now,
    updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending'
RETURNING
    id, claims, task, queue, priority, attempts, failures, losses, max_attempts,
    timeout, backoff, idempotency_key, worker, alone, abandoned, state, run_at,
    created_at, started_at, leased_until, cancel_requested_at, payload;
