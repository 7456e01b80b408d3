-- Notes what a probe said, if the turn is still that worker's. Answers a row where it
-- is. Locks the rule's row.
UPDATE {schema}.replay_rules
SET
    probed_at = {now},
    passed = %(passed)s::boolean,
    error = %(error)s::text,
    replayed = %(replayed)s::integer
WHERE task = %(task)s::text AND worker = %(worker)s::text
RETURNING task;
