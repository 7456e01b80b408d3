-- What an operator runs where dead entries are left though nobody needs them. Shown,
-- and never run from here: it takes its time, and needs the table's owner. Locks live
-- against other vacuums and changes of it, in nobody's way who reads or writes.
VACUUM (INDEX_CLEANUP ON) {schema}.live;
