-- The lines of one queue, best priority first, of suspects or of the others: each
-- distinct priority and task of its pending jobs, when the first job of it is due, and
-- when the next one after now is.
-- Steps through rowlock_pending, a few steps a line however many jobs it has, so that
-- unknown tasks and jobs planned for later cost nothing (law 16). Locks nothing.
WITH RECURSIVE firsts (id) AS (
    SELECT (
        SELECT id FROM rowlock_rows INDEXED BY rowlock_pending
        WHERE status = 'pending' AND queue = :queue AND suspect = :suspects
        ORDER BY priority DESC, task, run_at, id LIMIT 1
    )
    UNION ALL
    SELECT coalesce(
        (
            SELECT other.id FROM rowlock_rows AS other INDEXED BY rowlock_pending
            WHERE other.status = 'pending' AND other.queue = :queue
                AND other.suspect = :suspects
                AND other.priority = line.priority AND other.task > line.task
            ORDER BY other.task, other.run_at, other.id LIMIT 1
        ),
        (
            SELECT other.id FROM rowlock_rows AS other INDEXED BY rowlock_pending
            WHERE other.status = 'pending' AND other.queue = :queue
                AND other.suspect = :suspects
                AND other.priority < line.priority
            ORDER BY other.priority DESC, other.task, other.run_at, other.id LIMIT 1
        )
    )
    FROM firsts
    JOIN rowlock_rows AS line ON line.id = firsts.id
)
SELECT
    line.priority,
    line.task,
    line.run_at,
    (
        SELECT min(later.run_at)
        FROM rowlock_rows AS later INDEXED BY rowlock_pending
        WHERE later.status = 'pending' AND later.queue = :queue
            AND later.suspect = :suspects
            AND later.priority = line.priority AND later.task = line.task
            AND later.run_at > :now
    )
FROM firsts
JOIN rowlock_rows AS line ON line.id = firsts.id;
