-- Dead letters by task and fingerprint, the group that was last seen newest first; of
-- each the newest job, with its last error. Needs rowlock_dead, which is read once from
-- end to end, and of each group shown one job. Locks nothing.
SELECT
    sort.task, sort.fingerprint, sort.jobs, sort.first_seen, sort.last_seen, newest.id,
    CASE WHEN json_valid(newest.errors) THEN json_extract(newest.errors, '$[#-1]') END
FROM (
    SELECT
        task, fingerprint, count(*) AS jobs,
        min(finished_at) AS first_seen, max(finished_at) AS last_seen
    FROM rowlock_rows INDEXED BY rowlock_dead
    WHERE status = 'failed'
        AND (:task IS NULL OR task = :task) AND (:queue IS NULL OR queue = :queue)
    GROUP BY task, fingerprint
    ORDER BY last_seen DESC, task, fingerprint
    LIMIT :limit
) AS sort
CROSS JOIN rowlock_rows AS newest NOT INDEXED ON newest.id = (
    SELECT id FROM rowlock_rows INDEXED BY rowlock_dead
    WHERE status = 'failed' AND task = sort.task AND fingerprint IS sort.fingerprint
        AND (:queue IS NULL OR queue = :queue)
    ORDER BY finished_at DESC, id DESC
    LIMIT 1
)
ORDER BY sort.last_seen DESC, sort.task, sort.fingerprint;
