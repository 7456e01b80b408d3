-- Drops the schema with everything in it: a test's own, which nobody else uses.
-- Locks every relation of it, in no order.
DROP SCHEMA IF EXISTS {schema} CASCADE;
