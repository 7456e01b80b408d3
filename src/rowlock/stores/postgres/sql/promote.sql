-- What an operator runs on a standby whose primary is lost. Shown, and never run from
-- here; as such it locks nothing.
SELECT pg_promote();
