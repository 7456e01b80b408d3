-- Shows a worker no longer. Locks its row.
DELETE FROM {schema}.workers WHERE id = %(id)s::text;
