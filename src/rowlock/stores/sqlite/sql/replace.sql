-- Gives a pending job the payload of another call with its key, and when that is due.
-- What an attempt has saved of another payload is of no use to the next one. Under the
-- write lock.
UPDATE rowlock_rows
SET
    payload = :payload, run_at = :run_at, expires_at = :expires_at, updated_at = :now,
    state = CASE WHEN :is_same THEN state END,
    progress = CASE WHEN :is_same THEN progress END
WHERE id = :id AND status = 'pending';
