-- Finished jobs that fit, newest first, below an id. What is null does not restrict;
-- planned with its parameters known, so that what they leave out is not read. Locks
-- nothing.
SELECT
    id, queue, task, status, priority, run_at, expires_at, claims, attempts, failures,
    losses, max_attempts, timeout, backoff, idempotency_key, leased_until, worker,
    cancel_requested_at, last_error, created_at, started_at, finished_at, updated_at,
    progress, meta, errors, state, result, payload
FROM {schema}.history
WHERE (%(after)s::bigint IS NULL OR id < %(after)s::bigint)
    AND (%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s::bigint[]))
    AND (%(status)s::text IS NULL OR status = %(status)s::text)
    AND (%(task)s::text IS NULL OR task = %(task)s::text)
    AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
    AND (
        %(idempotency_key)s::text IS NULL
        OR idempotency_key = %(idempotency_key)s::text
    )
    AND (
        %(age)s::bigint IS NULL
        OR created_at <= {now} - %(age)s::bigint * interval '1 microsecond'
    )
ORDER BY id DESC
LIMIT %(limit)s::bigint;
