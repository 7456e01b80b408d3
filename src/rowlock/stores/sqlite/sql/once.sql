-- Takes a key that comes for the first time; no row is one that came before. Under the
-- write lock.
INSERT INTO rowlock_once (key, at)
VALUES (:key, :now)
ON CONFLICT (key) DO NOTHING
RETURNING +key;
