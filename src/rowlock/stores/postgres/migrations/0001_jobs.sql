-- Jobs, and what stands beside them.
--
-- Unfinished jobs and dead letters are in `live`, the others in `history`, moved there
-- by the statement that finishes them. Payload, result, state, progress and backoff are
-- `json`, which gives back the very text it was given; what is changed here is `jsonb`.
-- Names compare by their bytes, so that no upgrade of a locale damages an index.

CREATE SEQUENCE {schema}.ids AS bigint;

CREATE TABLE {schema}.live (
    -- A sequence never gives a number twice, even where its row is gone (law 20).
    id bigint NOT NULL DEFAULT nextval({ids}) PRIMARY KEY,
    run_at timestamptz NOT NULL,
    expires_at timestamptz,
    leased_until timestamptz,
    cancel_requested_at timestamptz,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    updated_at timestamptz NOT NULL,
    timeout double precision,
    priority integer NOT NULL,
    claims integer NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    losses integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL,
    auto_replays integer NOT NULL DEFAULT 0,
    alone boolean NOT NULL DEFAULT false,
    abandoned boolean NOT NULL DEFAULT false,
    suspect boolean NOT NULL DEFAULT false,
    -- Of a dead letter, and so is its fingerprint: in the history they are never set.
    unrecoverable boolean NOT NULL DEFAULT false,
    status text COLLATE "C" NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'running', 'succeeded', 'failed', 'cancelled')),
    queue text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    worker text COLLATE "C",
    idempotency_key text COLLATE "C",
    -- For how long after its end a job keeps its key, and whether it has freed it sooner.
    idempotency_for interval,
    key_freed boolean NOT NULL DEFAULT false,
    -- In UTC, where a day has 24 hours. By itself, so that no way of ending forgets it.
    key_until timestamptz GENERATED ALWAYS AS (
        CASE WHEN NOT key_freed THEN
            (finished_at AT TIME ZONE 'UTC' + idempotency_for) AT TIME ZONE 'UTC' END
    ) STORED,
    backoff json,
    last_error text,
    fingerprint text COLLATE "C",
    progress json,
    meta jsonb NOT NULL DEFAULT '{}',
    errors jsonb NOT NULL DEFAULT '[]',
    state json,
    result json,
    payload json NOT NULL,
    -- Few: each is read anew by every statement that writes.
    CONSTRAINT live_is_leased_while_running
        CHECK ((status = 'running') = (leased_until IS NOT NULL)),
    CONSTRAINT live_is_finished_when_final
        CHECK ((status IN ('pending', 'running')) = (finished_at IS NULL)),
    -- Or one row that was changed by hand would stop a claim or a batch of outcomes:
    -- counts are added to, notes appended, and each end has a day.
    CONSTRAINT live_can_go_on CHECK (
        greatest(claims, attempts, failures, losses, auto_replays) < 1000000000
        AND jsonb_typeof(errors) = 'array' AND jsonb_typeof(meta) = 'object'
        AND started_at < '9999-01-01 00:00+00'
        AND finished_at < '9999-01-01 00:00+00' AND finished_at > '1970-01-01 00:00+00'
    )
) WITH (
    -- A row here lives for seconds and leaves dead index entries behind.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    -- Its lock stops everybody, and what it gives back is filled again at once.
    vacuum_truncate = false,
    toast.vacuum_truncate = false
);

-- The claim's order, with the task as the last column: on 17 and later a job of a task
-- that the worker doesn't have is passed by without a look at its row (law 16). Suspects
-- of a priority stand apart from the others, so that neither is in the other's way.
CREATE INDEX live_pending
    ON {schema}.live (queue, priority DESC, suspect, run_at, id, task)
    WHERE status = 'pending';
CREATE INDEX live_leases ON {schema}.live (leased_until)
    WHERE status = 'running';
CREATE INDEX live_held ON {schema}.live (worker)
    WHERE status = 'running';
CREATE INDEX live_expiring ON {schema}.live (expires_at)
    WHERE status = 'pending' AND attempts = 0 AND expires_at IS NOT NULL;
CREATE INDEX live_failed ON {schema}.live (finished_at, key_until)
    WHERE status = 'failed';
-- Jobs that a caller's transaction completed, and that met no partition; and those that
-- kept their key, until it is free.
CREATE INDEX live_left ON {schema}.live (finished_at)
    WHERE status IN ('succeeded', 'cancelled') AND key_until IS NULL;
CREATE INDEX live_kept_keys ON {schema}.live (key_until)
    WHERE key_until IS NOT NULL;
-- Law 10. A job that keeps its key after its end stays here, in the same index, so that
-- there is no moment at which two could have it.
CREATE UNIQUE INDEX live_held_keys ON {schema}.live (task, idempotency_key)
    WHERE idempotency_key IS NOT NULL
        AND (status IN ('pending', 'running') OR key_until IS NOT NULL);
CREATE INDEX live_keys ON {schema}.live (idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- By day in UTC, so that retention is a drop. The CHECK on the status lets a query for
-- failed jobs skip every partition. There is no default partition, beside which none
-- could be detached without a lock.
CREATE TABLE {schema}.history (
    LIKE {schema}.live INCLUDING DEFAULTS,
    CONSTRAINT history_is_final CHECK (status IN ('succeeded', 'cancelled')),
    PRIMARY KEY (id, finished_at)
) PARTITION BY RANGE (finished_at);

-- All that grouping dead letters asks for, in the order of the groups.
CREATE INDEX live_dead ON {schema}.live (task, fingerprint, finished_at, id, queue)
    WHERE status = 'failed';

-- With the id, so that whichever index is taken for one job, it finds that job alone.
CREATE INDEX history_finished ON {schema}.history (finished_at, id);
CREATE INDEX history_keys ON {schema}.history (idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- An instant as it stands in `errors`, and as the JSON of every store shows it.
CREATE FUNCTION {schema}.iso(at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');

-- Adds an entry to a job's errors, of which the last ten stay.
CREATE FUNCTION {schema}.noted(errors jsonb, entry jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN jsonb_array_length(errors) < 10 THEN errors ELSE errors - 0 END
    || jsonb_build_array(entry);

-- Whether a payload has these fields, an object within an object. What a hand has written
-- may be no `jsonb`, and fits nothing.
CREATE FUNCTION {schema}.fits(payload json, fields jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN payload::jsonb @> fields;
EXCEPTION
    WHEN data_exception THEN
        RETURN false;
END
$function$;

-- Makes the partition of a day where it is missing; says whether it was. A table that is
-- then attached: CREATE ... PARTITION OF would wait for every reader of the history, and
-- a finish behind it.
CREATE FUNCTION {schema}.make_partition(day date) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    name text := 'history_' || to_char(day, 'YYYYMMDD');
    first timestamptz := day::timestamp AT TIME ZONE 'UTC';
    following timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
    owner name := pg_get_userbyid((
        SELECT relowner FROM pg_class
        WHERE oid = to_regclass(format('%I.history', {schema_name}))
    ));
BEGIN
    -- Whoever comes second finds it made.
    PERFORM pg_advisory_xact_lock(hashtextextended({schema_name}, 1));
    IF EXISTS (
        SELECT FROM pg_inherits
        WHERE inhparent = to_regclass(format('%I.history', {schema_name}))
            AND inhrelid = to_regclass(format('%I.%I', {schema_name}, name))
    ) THEN
        RETURN false;
    END IF;
    EXECUTE format(
        'CREATE TABLE IF NOT EXISTS %1$I.%2$I ('
        ' LIKE %1$I.history INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
        {schema_name}, name
    );
    EXECUTE format(
        'ALTER TABLE %1$I.history ATTACH PARTITION %1$I.%2$I'
        ' FOR VALUES FROM (%3$L) TO (%4$L)',
        {schema_name}, name, first, following
    );
    -- Whoever makes it, it is detached by the worker's role, which owns the history.
    IF owner <> current_user THEN
        EXECUTE format(
            'ALTER TABLE %I.%I OWNER TO %I', {schema_name}, name, owner
        );
    END IF;
    RETURN true;
END
$function$;

CREATE TABLE {schema}.pauses (
    queue text COLLATE "C" UNIQUE,
    task text COLLATE "C" UNIQUE,
    until timestamptz,
    reason text,
    by text,
    at timestamptz NOT NULL,
    CHECK ((queue IS NULL) <> (task IS NULL))
);

CREATE TABLE {schema}.workers (
    id text COLLATE "C" PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    -- The code's, as its app says; `rowlock` is ours.
    version text,
    rowlock text NOT NULL,
    tasks text[] NOT NULL,
    queues text[],
    concurrency integer NOT NULL,
    lease interval NOT NULL,
    -- Whether it claims nothing until it has run a suspect that waits too long.
    gives_way boolean NOT NULL DEFAULT false,
    -- Jobs whose handler it could not stop.
    stuck bigint[] NOT NULL DEFAULT ARRAY[]::bigint[],
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    -- By how much at least its clock was ahead of the server's when it registered.
    clock_skew interval NOT NULL DEFAULT '0'
);

CREATE TABLE {schema}.tasks (
    name text COLLATE "C" PRIMARY KEY,
    queue text NOT NULL,
    defaults json NOT NULL,
    seen_at timestamptz NOT NULL
);

-- By which rules dead letters are replayed automatically, when a worker last had the
-- turn, and what its probe said.
CREATE TABLE {schema}.replay_rules (
    task text COLLATE "C" PRIMARY KEY,
    every interval NOT NULL,
    "limit" integer NOT NULL,
    rate double precision NOT NULL,
    turn_at timestamptz NOT NULL,
    worker text NOT NULL,
    probed_at timestamptz,
    passed boolean,
    error text,
    replayed integer
);

-- What people query.
CREATE VIEW {schema}.jobs AS
SELECT
    id, queue, task, payload, status, priority, run_at, expires_at, claims, attempts,
    failures, losses, max_attempts, timeout, backoff, idempotency_key, leased_until,
    worker, cancel_requested_at, last_error, errors, result, state, progress, meta,
    created_at, started_at, finished_at, updated_at, alone, abandoned, suspect,
    fingerprint, auto_replays, key_until
FROM {schema}.live
UNION ALL
SELECT
    id, queue, task, payload, status, priority, run_at, expires_at, claims, attempts,
    failures, losses, max_attempts, timeout, backoff, idempotency_key, leased_until,
    worker, cancel_requested_at, last_error, errors, result, state, progress, meta,
    created_at, started_at, finished_at, updated_at, alone, abandoned, suspect,
    fingerprint, auto_replays, key_until
FROM {schema}.history;
