-- Pauses one queue or one task, after resume.sql has ended an earlier pause of it
-- (law 11). Under the lock of lock_pauses.sql.
INSERT INTO {schema}.pauses (queue, task, until, reason, by, at)
VALUES (
    %(queue)s::text, %(task)s::text,
    coalesce({now} + %(span)s::bigint * interval '1 microsecond', %(until)s::timestamptz),
    %(reason)s::text, %(by)s::text, {now}
);
