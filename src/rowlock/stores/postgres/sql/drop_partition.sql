-- Removes a partition that was detached. Locks it alone, which only a dump may hold.
DROP TABLE IF EXISTS {schema}.{partition};
