-- `cancel` and `replay` in SQL, with the answers of the verbs in Python; and the view
-- refuses writes.

-- How a job stands to which a verb did nothing.
CREATE FUNCTION {schema}.stands(id bigint) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $function$
SELECT coalesce(
    (
        SELECT 'already ' || status
        FROM (
            SELECT live.id, status FROM {schema}.live
            UNION ALL
            SELECT history.id, status FROM {schema}.history
        ) AS job
        WHERE job.id = stands.id
    ),
    'not found'
);
$function$;

-- Cancels a pending job, or asks a running one to (law 21). Answers `done`, or as it
-- stands. It is cancelled where it stands: a caller's transaction should not wait for a
-- partition, nor hold one up. Waits for another transaction for a second (law 18).
CREATE FUNCTION {schema}.cancel(id bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s'
AS $function$
#variable_conflict use_column
DECLARE
    moment timestamptz := statement_timestamp();
BEGIN
    IF {schema}.id_fault(cancel.id) IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = {schema}.id_fault(cancel.id);
    END IF;
    UPDATE {schema}.live
    SET
        status = CASE status WHEN 'pending' THEN 'cancelled' ELSE status END,
        finished_at =
            CASE status WHEN 'pending' THEN greatest(moment, started_at) END,
        cancel_requested_at =
            CASE status WHEN 'running' THEN moment ELSE cancel_requested_at END,
        fingerprint = CASE status WHEN 'running' THEN fingerprint END,
        errors = {schema}.noted(errors, jsonb_build_object(
            'event', 'cancel', 'by', session_user, 'at', {schema}.iso(moment)
        )),
        updated_at = moment
    WHERE live.id = cancel.id
        AND (status = 'pending' OR status = 'running' AND cancel_requested_at IS NULL)
            IS TRUE;
    IF FOUND OR EXISTS (
        SELECT FROM {schema}.live
        WHERE live.id = cancel.id AND (status = 'running') IS TRUE
    ) THEN
        RETURN 'done';
    END IF;
    RETURN {schema}.stands(cancel.id);
EXCEPTION
    WHEN lock_not_available THEN
        RETURN 'locked by another transaction, try again';
END
$function$;

-- Puts a failed or cancelled job back to pending, unless another of its task holds its
-- key (law 10). Answers `done`, `blocked by` a job, or as it stands. Waits for
-- another transaction for a second (law 18).
CREATE FUNCTION {schema}.replay(id bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s'
AS $function$
DECLARE
    job record;
BEGIN
    IF {schema}.id_fault(replay.id) IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = {schema}.id_fault(replay.id);
    END IF;
    -- Again where the key is taken between the look and the change.
    FOR try IN 1..3 LOOP
        BEGIN
            job := {schema}.dead(replay.id);
            IF job.task IS NULL THEN
                RETURN {schema}.stands(replay.id);
            ELSIF job.blocked_by IS NOT NULL THEN
                RETURN 'blocked by ' || job.blocked_by;
            END IF;
            PERFORM {schema}.revive(replay.id, statement_timestamp());
            RETURN 'done';
        EXCEPTION
            WHEN unique_violation THEN NULL;
            WHEN lock_not_available THEN
                RETURN 'locked by another transaction, try again';
        END;
    END LOOP;
    RETURN 'locked by another transaction, try again';
END
$function$;

-- Locks a job that may be replayed, wherever it is, and finds who holds its key.
CREATE FUNCTION {schema}.dead(id bigint, OUT task text, OUT blocked_by bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    key text;
BEGIN
    SELECT live.task, live.idempotency_key INTO dead.task, key
    FROM {schema}.live
    WHERE live.id = dead.id AND (live.status IN ('failed', 'cancelled')) IS TRUE
    FOR UPDATE;
    IF NOT FOUND THEN
        SELECT history.task, history.idempotency_key INTO dead.task, key
        FROM {schema}.history
        WHERE history.id = dead.id AND (history.status = 'cancelled') IS TRUE
        FOR UPDATE;
    END IF;
    UPDATE {schema}.live AS other
    SET key_freed = true
    WHERE other.task = dead.task AND other.idempotency_key = key
        AND other.idempotency_key IS NOT NULL
        AND (other.status IN ('pending', 'running') OR other.key_until IS NOT NULL)
        AND (other.key_until <= statement_timestamp()) IS TRUE;
    SELECT other.id INTO dead.blocked_by
    FROM {schema}.live AS other
    WHERE other.task = dead.task AND other.idempotency_key = key
        AND other.idempotency_key IS NOT NULL AND other.id <> dead.id
        AND (other.status IN ('pending', 'running') OR other.key_until IS NOT NULL);
END
$function$;

-- Notes a replay in a job's errors.
CREATE FUNCTION {schema}.replayed(errors jsonb, moment timestamptz) RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $function$
SELECT {schema}.noted(errors, jsonb_build_object(
    'event', 'replay', 'by', session_user, 'at', {schema}.iso(moment),
    'run_at', {schema}.iso(moment)
));
$function$;

-- Puts a job that is locked back to pending, with its history, and tells of it.
CREATE FUNCTION {schema}.revive(id bigint, moment timestamptz) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $function$
WITH gone AS (
    DELETE FROM {schema}.history
    WHERE history.id = revive.id
    RETURNING history.*
),
returned AS (
    INSERT INTO {schema}.live (
        id, run_at, created_at, started_at, updated_at, timeout, priority, claims,
        attempts, max_attempts, auto_replays, queue, task, idempotency_key,
        idempotency_for, backoff, last_error, progress, meta, errors, state, payload
    )
    SELECT
        gone.id, moment, created_at, started_at, moment, timeout, priority, claims,
        attempts, max_attempts, auto_replays, queue, task, idempotency_key,
        idempotency_for, backoff, last_error, progress, meta,
        {schema}.replayed(errors, moment), state, payload
    FROM gone
    RETURNING queue, priority
),
kept AS (
    UPDATE {schema}.live
    SET
        status = 'pending',
        run_at = moment,
        expires_at = NULL,
        failures = 0,
        losses = 0,
        suspect = false,
        unrecoverable = false,
        key_freed = false,
        worker = NULL,
        cancel_requested_at = NULL,
        finished_at = NULL,
        errors = {schema}.replayed(errors, moment),
        updated_at = moment
    WHERE live.id = revive.id
    RETURNING queue, priority
),
revived AS (
    SELECT queue, priority FROM returned
    UNION ALL
    SELECT queue, priority FROM kept
)
SELECT {schema}.tell(queue, priority, moment, true) FROM revived;
$function$;

-- Locks the row of a claim in the caller's transaction, while which nobody recovers,
-- renews or ends it. Where the claim doesn't hold (law 6) it raises, so that this
-- transaction can't commit. Waits for a second for whoever has the row (law 18).
CREATE FUNCTION {schema}.hold(id bigint, claim integer) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s'
AS $function$
BEGIN
    PERFORM FROM {schema}.live
    WHERE live.id = hold.id AND live.claims = hold.claim
        AND (live.status = 'running') IS TRUE
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'RL001',
            MESSAGE = format('Claim %s of job %s is lost', hold.claim, hold.id);
    END IF;
    RETURN true;
END
$function$;

-- Whether the history has the partition of an instant, by its name: a statement that
-- inserts where there is none fails, and its transaction with it.
CREATE FUNCTION {schema}.has_day(at timestamptz) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
RETURN EXISTS (
    SELECT FROM pg_inherits
    WHERE inhparent = to_regclass(format('%I.history', {schema_name}))
        AND inhrelid = to_regclass(format(
            '%I.%I', {schema_name},
            'history_' || to_char(has_day.at AT TIME ZONE 'UTC', 'YYYYMMDD')
        ))
        AND NOT inhdetachpending
);

-- Refuses to write to the view, and names the verb.
CREATE FUNCTION {schema}.refuse_write() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format(
            CASE TG_OP
                WHEN 'INSERT' THEN '%1$I.jobs is read-only: add jobs with'
                    ' %1$I.enqueue(task, payload)'
                WHEN 'UPDATE' THEN '%1$I.jobs is read-only: change jobs with'
                    ' %1$I.cancel(id), %1$I.replay(id), or move'
                ELSE '%1$I.jobs is read-only: remove jobs with delete'
            END,
            {schema_name}
        );
END
$function$;

CREATE TRIGGER jobs_write INSTEAD OF INSERT OR UPDATE OR DELETE ON {schema}.jobs
FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_write();
