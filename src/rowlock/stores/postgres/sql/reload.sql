-- What an operator runs so that a server reads its settings anew. Shown, and never run
-- from here; as such it locks nothing.
SELECT pg_reload_conf();
