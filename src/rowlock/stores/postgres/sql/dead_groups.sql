-- Dead letters by task and fingerprint, the group that was last seen newest first; of
-- each the newest job, with its last error. Needs live_dead, which is read once from end
-- to end, and of each group shown one job. Locks nothing.
WITH sort AS MATERIALIZED (
    SELECT
        task, fingerprint, count(*) AS jobs,
        min(finished_at) AS first_seen, max(finished_at) AS last_seen
    FROM {schema}.live
    WHERE status = 'failed'
        AND (%(task)s::text IS NULL OR task = %(task)s::text)
        AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
    GROUP BY task, fingerprint
    ORDER BY last_seen DESC, task, fingerprint
    LIMIT %(limit)s::bigint
)
SELECT
    sort.task, sort.fingerprint, sort.jobs, sort.first_seen, sort.last_seen, newest.id,
    newest.errors -> -1
FROM sort
-- A null is equal to nothing, and found by another condition of the same index.
CROSS JOIN LATERAL (
    SELECT coalesce(
        (
            SELECT id FROM {schema}.live
            WHERE status = 'failed' AND task = sort.task
                AND fingerprint = sort.fingerprint
                AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
            ORDER BY finished_at DESC, id DESC
            LIMIT 1
        ),
        (
            SELECT id FROM {schema}.live
            WHERE status = 'failed' AND task = sort.task
                AND sort.fingerprint IS NULL AND fingerprint IS NULL
                AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
            ORDER BY finished_at DESC, id DESC
            LIMIT 1
        )
    ) AS id
) AS its
JOIN {schema}.live AS newest ON newest.id = its.id
ORDER BY sort.last_seen DESC, sort.task, sort.fingerprint;
