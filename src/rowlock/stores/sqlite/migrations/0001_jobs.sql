-- Jobs, and what stands beside them.
-- Instants are microseconds since 1970 in UTC, JSON is text. Large columns come last,
-- so that the small ones are read without their overflow pages.

CREATE TABLE rowlock_rows (
    -- AUTOINCREMENT: an id is never used again, even where its row is gone (law 20).
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    status TEXT NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'running', 'succeeded', 'failed', 'cancelled')),
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    priority INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    expires_at INTEGER,
    claims INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    failures INTEGER NOT NULL DEFAULT 0,
    losses INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    timeout REAL,
    leased_until INTEGER,
    cancel_requested_at INTEGER,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    updated_at INTEGER NOT NULL,
    alone INTEGER NOT NULL DEFAULT 0,
    abandoned INTEGER NOT NULL DEFAULT 0,
    suspect INTEGER NOT NULL DEFAULT 0,
    unrecoverable INTEGER NOT NULL DEFAULT 0,
    auto_replays INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    idempotency_key TEXT,
    -- For how long after its end a job keeps its key, and whether it has freed it sooner.
    idempotency_for INTEGER,
    key_freed INTEGER NOT NULL DEFAULT 0,
    -- By itself, so that no way of ending forgets it.
    key_until INTEGER GENERATED ALWAYS AS (
        CASE WHEN NOT key_freed THEN finished_at + idempotency_for END
    ) VIRTUAL,
    backoff TEXT,
    last_error TEXT,
    fingerprint TEXT,
    progress TEXT,
    meta TEXT NOT NULL DEFAULT '{}',
    errors TEXT NOT NULL DEFAULT '[]',
    state TEXT,
    result TEXT,
    payload TEXT NOT NULL,
    -- SQLite keeps a text in a column of numbers, and a hand writes one easily: whoever
    -- reads it would stop, with all that it has claimed.
    CONSTRAINT rowlock_types CHECK (
        typeof(queue) = 'text' AND typeof(task) = 'text' AND typeof(payload) = 'text'
        AND typeof(meta) = 'text' AND typeof(errors) = 'text'
        AND typeof(priority) = 'integer' AND typeof(run_at) = 'integer'
        AND typeof(claims) = 'integer' AND typeof(attempts) = 'integer'
        AND typeof(failures) = 'integer' AND typeof(losses) = 'integer'
        AND typeof(max_attempts) = 'integer' AND typeof(created_at) = 'integer'
        AND typeof(updated_at) = 'integer' AND typeof(timeout) IN ('real', 'null')
        AND typeof(expires_at) IN ('integer', 'null')
        AND typeof(leased_until) IN ('integer', 'null')
        AND typeof(cancel_requested_at) IN ('integer', 'null')
        AND typeof(started_at) IN ('integer', 'null')
        AND typeof(finished_at) IN ('integer', 'null')
        AND typeof(worker) IN ('text', 'null')
        AND typeof(idempotency_key) IN ('text', 'null')
        AND typeof(idempotency_for) IN ('integer', 'null')
    ),
    CHECK ((status = 'running') = (leased_until IS NOT NULL)),
    CHECK ((status IN ('pending', 'running')) = (finished_at IS NULL))
);

-- The claim's order, with the task before the due time: lines of unknown tasks and
-- of jobs planned for later are stepped over, not scanned (law 16), and suspects stand in
-- lines of their own. The status comes first though it is always the same: only so is
-- the index read without the table.
CREATE INDEX rowlock_pending
    ON rowlock_rows (status, queue, suspect, priority DESC, task, run_at)
    WHERE status = 'pending';
-- Empty nearly always, which is seen in one step.
CREATE INDEX rowlock_suspects ON rowlock_rows (suspect)
    WHERE status = 'pending' AND suspect = 1;
CREATE INDEX rowlock_expiring ON rowlock_rows (expires_at)
    WHERE status = 'pending' AND attempts = 0 AND expires_at IS NOT NULL;
-- Running jobs are few: what isn't asked by lease reads all of them.
CREATE INDEX rowlock_leases ON rowlock_rows (leased_until)
    WHERE status = 'running';
-- For prune by age, for counts by queue, for dead letters among many others. With what
-- says that a job keeps its key, so that prune passes it by without a look at its row; a
-- generated column is never read from an index.
CREATE INDEX rowlock_finished
    ON rowlock_rows (status, finished_at, queue, idempotency_for, key_freed)
    WHERE finished_at IS NOT NULL;
CREATE INDEX rowlock_kept_keys ON rowlock_rows (key_until)
    WHERE key_until IS NOT NULL;
-- All that grouping dead letters asks for, in the order of the groups.
CREATE INDEX rowlock_dead
    ON rowlock_rows (status, task, fingerprint, finished_at, queue)
    WHERE status = 'failed';

-- Law 10.
CREATE UNIQUE INDEX rowlock_held_keys ON rowlock_rows (task, idempotency_key)
    WHERE idempotency_key IS NOT NULL
        AND (status IN ('pending', 'running') OR key_until IS NOT NULL);
CREATE INDEX rowlock_keys ON rowlock_rows (idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE TABLE rowlock_pauses (
    queue TEXT UNIQUE,
    task TEXT UNIQUE,
    until INTEGER,
    reason TEXT,
    by TEXT,
    at INTEGER NOT NULL,
    CHECK ((queue IS NULL) <> (task IS NULL))
);

CREATE TABLE rowlock_workers (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    -- The code's, as its app says; `rowlock` is ours.
    version TEXT,
    rowlock TEXT NOT NULL,
    tasks TEXT NOT NULL,
    queues TEXT,
    concurrency INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    -- Whether it claims nothing until it has run a suspect that waits too long.
    gives_way INTEGER NOT NULL DEFAULT 0,
    -- Jobs whose handler it could not stop.
    stuck TEXT NOT NULL DEFAULT '[]',
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE rowlock_tasks (
    name TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    defaults TEXT NOT NULL,
    seen_at INTEGER NOT NULL
) WITHOUT ROWID;

-- By which rules dead letters are replayed automatically, when a worker last had the
-- turn, and what its probe said.
CREATE TABLE rowlock_replay_rules (
    task TEXT PRIMARY KEY,
    every INTEGER NOT NULL,
    "limit" INTEGER NOT NULL,
    rate REAL NOT NULL,
    turn_at INTEGER NOT NULL,
    worker TEXT NOT NULL,
    probed_at INTEGER,
    passed INTEGER,
    error TEXT,
    replayed INTEGER
) WITHOUT ROWID;

-- Keys that `once` was called with.
CREATE TABLE rowlock_once (
    key TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX rowlock_once_at ON rowlock_once (at);

-- What people query: instants as ISO 8601 in UTC. run_at and expires_at are a user's
-- own, and may lie before 1970, where SQLite's / and % round the other way.
CREATE VIEW rowlock_jobs AS
SELECT
    id,
    queue,
    task,
    payload,
    status,
    priority,
    strftime(
        '%Y-%m-%dT%H:%M:%S', (run_at - 999999 * (run_at < 0)) / 1000000, 'unixepoch'
    ) || printf('.%06dZ', (run_at % 1000000 + 1000000) % 1000000) AS run_at,
    strftime(
        '%Y-%m-%dT%H:%M:%S',
        (expires_at - 999999 * (expires_at < 0)) / 1000000,
        'unixepoch'
    ) || printf('.%06dZ', (expires_at % 1000000 + 1000000) % 1000000) AS expires_at,
    claims,
    attempts,
    failures,
    losses,
    max_attempts,
    timeout,
    backoff,
    idempotency_key,
    strftime('%Y-%m-%dT%H:%M:%S', leased_until / 1000000, 'unixepoch')
    || printf('.%06dZ', leased_until % 1000000) AS leased_until,
    worker,
    strftime('%Y-%m-%dT%H:%M:%S', cancel_requested_at / 1000000, 'unixepoch')
    || printf('.%06dZ', cancel_requested_at % 1000000) AS cancel_requested_at,
    last_error,
    errors,
    result,
    state,
    progress,
    meta,
    strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000000, 'unixepoch')
    || printf('.%06dZ', created_at % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000, 'unixepoch')
    || printf('.%06dZ', started_at % 1000000) AS started_at,
    strftime('%Y-%m-%dT%H:%M:%S', finished_at / 1000000, 'unixepoch')
    || printf('.%06dZ', finished_at % 1000000) AS finished_at,
    strftime('%Y-%m-%dT%H:%M:%S', updated_at / 1000000, 'unixepoch')
    || printf('.%06dZ', updated_at % 1000000) AS updated_at,
    alone,
    abandoned,
    suspect,
    fingerprint,
    auto_replays,
    strftime('%Y-%m-%dT%H:%M:%S', key_until / 1000000, 'unixepoch')
    || printf('.%06dZ', key_until % 1000000) AS key_until
FROM rowlock_rows;

CREATE TRIGGER rowlock_jobs_insert INSTEAD OF INSERT ON rowlock_jobs
BEGIN
    SELECT raise(ABORT, 'rowlock_jobs is read-only: add jobs with enqueue');
END;

CREATE TRIGGER rowlock_jobs_update INSTEAD OF UPDATE ON rowlock_jobs
BEGIN
    SELECT raise(
        ABORT, 'rowlock_jobs is read-only: change jobs with cancel, replay or move'
    );
END;

CREATE TRIGGER rowlock_jobs_delete INSTEAD OF DELETE ON rowlock_jobs
BEGIN
    SELECT raise(ABORT, 'rowlock_jobs is read-only: remove jobs with delete');
END;
