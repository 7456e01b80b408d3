-- Takes the row of a claim in the caller's transaction, or fails it where the claim
-- doesn't hold (law 6). Locks the row, while which nobody recovers, renews or ends it;
-- waits for a second for whoever has it (law 18). Needs the primary key.
SELECT {schema}.hold(%(id)s::bigint, %(claim)s::integer)::text;
