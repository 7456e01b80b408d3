-- The history's partitions of days of which nothing is to be kept any more, an
-- interrupted detach first: whether each still belongs to the history, whether its
-- detach was interrupted, whether it is better dropped whole than emptied, about how
-- many jobs it has, and when its day ends. A table that doesn't belong to the history
-- and has no mark was detached by somebody who wants to keep it. Needs no lock that a
-- detach holds: of what is being detached nobody asks the size. Locks nothing.
WITH found AS MATERIALIZED (
    SELECT
        partition.oid, partition.relname, partition.reltuples,
        parent.inhparent IS NOT NULL AS is_attached,
        coalesce(parent.inhdetachpending, false) AS is_pending,
        (to_date(right(partition.relname, 8), 'YYYYMMDD') + 1)::timestamp
            AT TIME ZONE 'UTC' AS ends_at
    FROM pg_class AS partition
    JOIN pg_namespace ON pg_namespace.oid = partition.relnamespace
    LEFT JOIN pg_inherits AS parent ON parent.inhrelid = partition.oid
    WHERE nspname = {schema_name} AND partition.relkind = 'r'
        AND partition.relname ~ '^history_[0-9]+$' AND length(partition.relname) = 16
        AND (
            parent.inhparent IS NOT NULL
            OR obj_description(partition.oid, 'pg_class') = 'to be dropped'
        )
)
SELECT
    relname, is_attached, is_pending,
    CASE WHEN is_attached AND NOT is_pending
        THEN pg_relation_size(oid) > 8388608 ELSE true END,
    greatest(reltuples, 0)::bigint,
    ends_at
FROM found
WHERE ends_at <= {now} - %(kept)s::bigint * interval '1 microsecond'
ORDER BY is_pending DESC, relname;
