-- Lets a role call the functions. Locks no row of ours.
SELECT {schema}.grant_producer(%(role)s::text::name);
