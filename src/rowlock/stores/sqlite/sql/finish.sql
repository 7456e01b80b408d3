-- Writes what a claim ended as, if it still holds its job (law 6). Under the write
-- lock. The caller has applied law 21 to the status. A `meta` that a hand has broken is
-- replaced, or it would undo the batch that it is in.
UPDATE rowlock_rows
SET
    status = :status,
    run_at = coalesce(:run_at, run_at),
    finished_at = :finished_at,
    attempts = attempts - :unstarted,
    started_at = CASE WHEN attempts > :unstarted THEN started_at END,
    failures = failures + :failed,
    losses = losses + :lost,
    unrecoverable = :unrecoverable,
    -- Of dead letters, and of what may become one.
    fingerprint = CASE
        WHEN :status IN ('pending', 'failed') THEN coalesce(:fingerprint, fingerprint)
    END,
    suspect = CASE WHEN :lost THEN 1 WHEN :unstarted THEN suspect ELSE 0 END,
    worker = CASE WHEN :status <> 'pending' THEN worker END,
    leased_until = NULL,
    alone = 0,
    abandoned = 0,
    result = :result,
    meta = CASE
        WHEN :meta IS NULL THEN meta
        WHEN json_valid(meta) THEN json_patch(meta, :meta)
        ELSE :meta
    END,
    updated_at = :now
WHERE id = :id AND claims = :claim AND status = 'running';
