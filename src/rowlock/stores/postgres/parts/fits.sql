-- What a job has to be in both statements that search ({fits}): all of these conditions.
-- What is null does not restrict.
(%(after)s::bigint IS NULL OR id < %(after)s::bigint)
AND (%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s::bigint[]))
AND (%(status)s::text IS NULL OR status = %(status)s::text)
AND (%(task)s::text IS NULL OR task = %(task)s::text)
AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
AND (%(fingerprint)s::text IS NULL OR fingerprint = %(fingerprint)s::text)
AND (
    %(idempotency_key)s::text IS NULL
    OR idempotency_key = %(idempotency_key)s::text
)
AND (
    %(older_than)s::bigint IS NULL
    OR created_at <= {now} - %(older_than)s::bigint * interval '1 microsecond'
)
AND (
    %(younger_than)s::bigint IS NULL
    OR created_at >= {now} - %(younger_than)s::bigint * interval '1 microsecond'
)
AND (
    %(finished_older_than)s::bigint IS NULL
    OR finished_at
    <= {now} - %(finished_older_than)s::bigint * interval '1 microsecond'
)
AND (
    %(finished_younger_than)s::bigint IS NULL
    OR finished_at
    >= {now} - %(finished_younger_than)s::bigint * interval '1 microsecond'
)
AND (%(least_priority)s::integer IS NULL OR priority >= %(least_priority)s::integer)
AND (%(most_priority)s::integer IS NULL OR priority <= %(most_priority)s::integer)
AND (%(least_attempts)s::integer IS NULL OR attempts >= %(least_attempts)s::integer)
AND (%(most_attempts)s::integer IS NULL OR attempts <= %(most_attempts)s::integer)
AND (%(worker)s::text IS NULL OR worker = %(worker)s::text)
AND (%(error)s::text IS NULL OR strpos(last_error, %(error)s::text) > 0)
AND (
    %(error_type)s::text IS NULL
    OR right(
        '.' || split_part(last_error, ':', 1), length(%(error_type)s::text) + 1
    ) = '.' || %(error_type)s::text
)
