-- What an operator runs where autovacuum is too slow: ten times as fast as it is unless
-- told otherwise. Shown, and never run from here; as such it locks nothing.
ALTER SYSTEM SET autovacuum_vacuum_cost_limit = 2000;
