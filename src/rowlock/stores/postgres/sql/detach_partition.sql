-- Takes a partition from the history. Waits until every transaction is over that uses
-- the history; nobody waits behind it. Locks nothing while it waits. Where it is
-- stopped before, the partition is hidden already, and finalize_partition.sql has to
-- follow.
ALTER TABLE {schema}.history DETACH PARTITION {schema}.{partition} CONCURRENTLY;
