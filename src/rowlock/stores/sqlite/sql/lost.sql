-- Claims whose lease is over, the longest over first (law 9). Needs rowlock_leases.
-- Locks nothing: the finish that follows has its own fence.
SELECT
    id, claims, task, queue, priority, attempts, failures, losses, max_attempts,
    timeout, backoff, idempotency_key, worker, alone, abandoned, state, run_at,
    created_at, coalesce(started_at, updated_at), leased_until, cancel_requested_at,
    payload
FROM rowlock_rows INDEXED BY rowlock_leases
WHERE status = 'running' AND leased_until <= :now
ORDER BY leased_until, id
LIMIT :limit;
