-- The history's partitions whose detach was interrupted, and what ends it. Locks nothing.
SELECT
    partition.relname,
    'ALTER TABLE ' || quote_ident({schema_name}) || '.history DETACH PARTITION '
    || quote_ident({schema_name}) || '.' || quote_ident(partition.relname)
    || ' FINALIZE'
FROM pg_inherits
JOIN pg_class AS partition ON partition.oid = inhrelid
WHERE inhparent = to_regclass(quote_ident({schema_name}) || '.history')
    AND inhdetachpending
ORDER BY partition.relname;
