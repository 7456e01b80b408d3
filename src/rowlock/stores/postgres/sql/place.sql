-- A pending job of a queue, as far as its place in the claim's order goes, and the store's
-- now. Needs the primary key; by `IS TRUE` no other index can be taken. Locks nothing.
SELECT suspect, priority, run_at, {now}
FROM {schema}.live
WHERE id = %(id)s::bigint AND queue = %(queue)s::text AND (status = 'pending') IS TRUE;
