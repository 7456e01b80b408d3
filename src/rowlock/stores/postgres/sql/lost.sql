-- Claims whose lease is over, the longest over first (law 9). Needs live_leases. Locks
-- what it answers, for the moment, and so passes by what a live transaction holds, which
-- is not lost; the finish that follows has its own fence.
SELECT
    id, claims, task, queue, priority, attempts, failures, losses, max_attempts,
    timeout, backoff, idempotency_key, worker, alone, abandoned, state, run_at,
    created_at, coalesce(started_at, updated_at), leased_until, cancel_requested_at,
    payload
FROM {schema}.live
WHERE status = 'running' AND leased_until <= {now}
ORDER BY leased_until
LIMIT %(limit)s::bigint
FOR UPDATE SKIP LOCKED;
