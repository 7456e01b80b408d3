-- Makes the history's partition of a day, where it is missing. Locks the history against
-- other changes of its partitions, in nobody's way who reads or writes it.
SELECT {schema}.make_partition(%(day)s::date);
