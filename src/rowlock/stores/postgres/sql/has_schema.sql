-- Whether the schema is there. Locks nothing.
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = {schema_name});
