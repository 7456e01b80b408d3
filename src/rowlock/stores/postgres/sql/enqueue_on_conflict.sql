-- Adds jobs of which some say what becomes of a call whose key is held: all of them or
-- none, as the function `add_each` has it (laws 1, 10). Answers the store's now, and by
-- place a row each: the id, null for a duplicate; the job that is in the way, where one is
-- and nothing was added; of a job that was replaced its line and when it is due; all as
-- text: it runs on connections lent, too. Needs live_held_keys. Locks as `add` says.
SELECT
    {schema}.iso({now}), place::text, made::text, in_the_way::text, its_queue,
    its_priority::text, {schema}.iso(due), is_suspect::text
FROM {schema}.add_each(
    {now}, %(queues)s::text[], %(tasks)s::text[], %(payloads)s::json[],
    %(priorities)s::integer[], %(delays)s::bigint[], %(run_ats)s::timestamptz[],
    %(expires_ats)s::timestamptz[], %(max_attempts)s::integer[],
    %(timeouts)s::double precision[], %(backoffs)s::json[], %(metas)s::jsonb[],
    %(idempotency_keys)s::text[], %(idempotency_fors)s::bigint[],
    %(on_conflicts)s::text[]
) AS answer
ORDER BY answer.place;
