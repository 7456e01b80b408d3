-- Which worker is to stop claiming for a suspect of this queue and task: of the live ones
-- that could take it, the one that started last. So nobody's death has to be noticed
-- where a new worker took its place. Reads all workers. Locks nothing.
SELECT id FROM rowlock_workers
WHERE seen_at + lease >= :now
    AND EXISTS (SELECT 1 FROM json_each(tasks) WHERE value = :task)
    AND (queues IS NULL OR EXISTS (SELECT 1 FROM json_each(queues) WHERE value = :queue))
ORDER BY started_at DESC, id
LIMIT 1;
