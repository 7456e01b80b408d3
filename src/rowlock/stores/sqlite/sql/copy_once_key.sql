-- Adds a key of `once` as it came in another store; one that came here, too, stays as it
-- is. Under the write lock.
INSERT INTO rowlock_once (key, at)
VALUES (:key, :at)
ON CONFLICT (key) DO NOTHING;
