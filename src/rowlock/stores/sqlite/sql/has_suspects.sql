-- Whether any suspect is pending, which is rarely so: then a claim asks no more. Needs
-- rowlock_suspects. Locks nothing.
SELECT 1 FROM rowlock_rows INDEXED BY rowlock_suspects
WHERE status = 'pending' AND suspect = 1
LIMIT 1;
