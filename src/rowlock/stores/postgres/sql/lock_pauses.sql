-- Waits until every claim under way is done, and lets none begin before this
-- transaction ends (law 11). Locks the table against those who lock its rows, which
-- claims do in name; whoever reads it is in nobody's way.
LOCK TABLE {schema}.pauses IN EXCLUSIVE MODE;
