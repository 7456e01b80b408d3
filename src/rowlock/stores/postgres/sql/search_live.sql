-- Ids of unfinished jobs and dead letters that fit, newest first, below an id. What is
-- null does not restrict; planned with its parameters known, so that what they leave out
-- is not read, and no row's payload in any case. Locks nothing.
SELECT id
FROM {schema}.live
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
    AND (%(fingerprint)s::text IS NULL OR fingerprint = %(fingerprint)s::text)
ORDER BY id DESC
LIMIT %(limit)s::bigint;
