-- Takes the turn with a rule of automatic replay, where that of another is over, or the
-- clock was set back since; answers for how long the turn of whoever has it lasts, in
-- microseconds. Locks the rule's row.
WITH taken AS (
    INSERT INTO {schema}.replay_rules AS rule (
        task, every, "limit", rate, turn_at, worker
    )
    VALUES (
        %(task)s::text, %(every)s::bigint * interval '1 microsecond',
        %(limit)s::integer, %(rate)s::double precision, {now}, %(worker)s::text
    )
    ON CONFLICT (task) DO UPDATE SET
        every = excluded.every,
        "limit" = excluded."limit",
        rate = excluded.rate,
        turn_at = excluded.turn_at,
        worker = excluded.worker
    WHERE rule.turn_at <= {now} - excluded.every OR rule.turn_at > {now}
    RETURNING task
)
SELECT
    EXISTS (SELECT FROM taken),
    (
        SELECT (extract(epoch FROM turn_at - {now}) * 1000000)::bigint
        FROM {schema}.replay_rules
        WHERE task = %(task)s::text
    ) + %(every)s::bigint;
