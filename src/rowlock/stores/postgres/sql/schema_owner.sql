-- Whose the schema is; no row where it isn't there. Locks nothing.
SELECT pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = {schema_name};
