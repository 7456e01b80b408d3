-- Lets one process migrate at a time. Locks the schema's name, until the transaction
-- ends.
SELECT pg_advisory_xact_lock(hashtextextended({schema_name}, 0));
