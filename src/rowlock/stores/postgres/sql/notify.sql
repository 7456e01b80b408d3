-- Tells sleepers of news, in every process that listens. Locks nothing of ours; a commit
-- that notifies holds a lock of the whole cluster, so this stands in one of its own.
SELECT pg_notify({channel_name}, %(payload)s::text);
