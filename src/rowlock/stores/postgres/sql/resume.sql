-- Ends the pause of one queue or one task, and says whether it was still in force.
-- Locks its row.
DELETE FROM {schema}.pauses
WHERE queue IS NOT DISTINCT FROM %(queue)s::text
    AND task IS NOT DISTINCT FROM %(task)s::text
RETURNING until IS NULL OR until > {now};
