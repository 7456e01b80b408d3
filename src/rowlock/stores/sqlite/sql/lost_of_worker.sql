-- All claims that a worker known to be dead holds, whatever their lease (law 9).
-- Needs rowlock_leases, since running jobs are few. Locks nothing.
SELECT
    id, claims, task, queue, priority, attempts, failures, losses, max_attempts,
    timeout, backoff, idempotency_key, worker, alone, abandoned, state, run_at,
    created_at, coalesce(started_at, updated_at), leased_until, cancel_requested_at,
    payload
FROM rowlock_rows INDEXED BY rowlock_leases
WHERE status = 'running' AND worker = :worker
ORDER BY id
LIMIT :limit;
