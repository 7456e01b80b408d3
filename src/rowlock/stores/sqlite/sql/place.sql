-- A pending job of a queue, as far as its place in the claim's order goes. Locks nothing.
SELECT suspect, priority, run_at
FROM rowlock_rows NOT INDEXED
WHERE id = :id AND status = 'pending' AND queue = :queue;
