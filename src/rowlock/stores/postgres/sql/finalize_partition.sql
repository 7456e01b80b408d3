-- Ends a detach that was interrupted. Waits until every transaction is over that may
-- still see the partition, and meanwhile locks the history against other changes of
-- its partitions, in nobody's way who reads or writes it.
ALTER TABLE {schema}.history DETACH PARTITION {schema}.{partition} FINALIZE;
