-- Adds jobs without idempotency keys, in the order given, and answers the store's now
-- and their ids in that order (laws 1, 20), as text: it runs on connections lent, too.
-- Types and names are those of pg_catalog to the letter, or a function or operator in
-- the search_path of a lent connection would fit better and be taken.
-- Locks nothing but the new rows.
WITH added AS (
    INSERT INTO {schema}.live (
        run_at, expires_at, created_at, updated_at, timeout, priority, max_attempts,
        queue, task, backoff, meta, payload
    )
    SELECT
        coalesce(job.run_at, {now} + job.delay * interval '1 microsecond'),
        job.expires_at, {now}, {now}, job.timeout, job.priority, job.max_attempts,
        job.queue, job.task, job.backoff, coalesce(job.meta, '{}'), job.payload
    FROM unnest(
        %(queues)s::text[], %(tasks)s::text[], %(payloads)s::json[],
        %(priorities)s::integer[], %(delays)s::float8[], %(run_ats)s::timestamptz[],
        %(expires_ats)s::timestamptz[], %(max_attempts)s::integer[],
        %(timeouts)s::double precision[], %(backoffs)s::json[], %(metas)s::jsonb[]
    ) WITH ORDINALITY AS job (
        queue, task, payload, priority, delay, run_at, expires_at, max_attempts,
        timeout, backoff, meta, place
    )
    ORDER BY job.place
    RETURNING id
)
SELECT {schema}.iso({now}), pg_catalog.array_agg(id ORDER BY id)::text FROM added;
