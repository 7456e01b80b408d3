-- Idempotency keys where a call says more than "not twice": what it means that the key is
-- held. And `once`, for callers that are no jobs.

-- Whether two payloads mean the same: the order of an object's keys is nothing. What a
-- hand has written may be no `jsonb`, and is like nothing else.
CREATE FUNCTION {schema}.same(one json, other json) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN one::jsonb = other::jsonb;
EXCEPTION
    WHEN data_exception THEN
        RETURN one::text = other::text;
END
$function$;

-- Adds one job, unless another of its task holds its key (law 10); then, as `on_conflict`
-- says, it is a duplicate (`skip`), the one that holds it gets the payload and the due
-- time of this one while it is pending (`replace`), or where its payload is another it is
-- named (`raise`). Answers the id of what was made, of what was replaced with its line, or
-- of what is in the way; nothing for a duplicate.
-- A holder that was not started in time is cancelled where it stands, upkeep moves it; one
-- that has kept its key for as long as it was to frees it. Waits where another transaction
-- is adding the same key, or changes who holds it: it may yet roll back. Each statement
-- sees what was committed before it, where the caller's isolation lets it; where it
-- doesn't, this raises what any statement of theirs would.
CREATE FUNCTION {schema}.add(
    new_id bigint,
    moment timestamptz,
    on_conflict text,
    task text,
    idempotency_key text,
    idempotency_for interval,
    queue text,
    payload json,
    priority integer,
    due timestamptz,
    expires_at timestamptz,
    max_attempts integer,
    timeout double precision,
    backoff json,
    meta jsonb,
    OUT made bigint,
    OUT in_the_way bigint,
    OUT replaced bigint,
    OUT its_queue text,
    OUT its_priority integer,
    OUT is_suspect boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    holder record;
BEGIN
    -- Again where the holder was changed while we waited.
    FOR try IN 1..10 LOOP
        UPDATE {schema}.live
        SET
            key_freed = true,
            status = CASE status WHEN 'pending' THEN 'cancelled' ELSE status END,
            finished_at = coalesce(finished_at, moment),
            updated_at = CASE status WHEN 'pending' THEN moment ELSE updated_at END,
            errors = CASE status
                WHEN 'pending' THEN {schema}.noted(
                    errors,
                    jsonb_build_object('event', 'expired', 'at', {schema}.iso(moment))
                )
                ELSE errors
            END
        WHERE ctid = ANY (ARRAY(
            SELECT late.ctid FROM {schema}.live AS late
            WHERE late.task = add.task AND late.idempotency_key = add.idempotency_key
                AND late.idempotency_key IS NOT NULL
                AND (late.status IN ('pending', 'running') OR late.key_until IS NOT NULL)
                AND (
                    late.status = 'pending' AND late.attempts = 0
                    AND late.expires_at <= moment
                    OR late.key_until <= moment
                ) IS TRUE
            LIMIT 1
            FOR UPDATE
        ));
        INSERT INTO {schema}.live AS job (
            id, run_at, expires_at, created_at, updated_at, timeout, priority,
            max_attempts, queue, task, backoff, meta, payload, idempotency_key,
            idempotency_for
        )
        VALUES (
            add.new_id, add.due, add.expires_at, moment, moment, add.timeout,
            add.priority, add.max_attempts, add.queue, add.task, add.backoff,
            coalesce(add.meta, '{}'), add.payload, add.idempotency_key,
            add.idempotency_for
        )
        ON CONFLICT (task, idempotency_key)
        WHERE idempotency_key IS NOT NULL
            AND (status IN ('pending', 'running') OR key_until IS NOT NULL)
        DO NOTHING
        RETURNING job.id INTO made;
        IF made IS NOT NULL THEN
            RETURN;
        END IF;
        SELECT
            held.id, held.status, held.payload,
            (
                held.status = 'pending' AND held.attempts = 0
                AND held.expires_at <= moment
                OR held.key_until <= moment
            ) IS TRUE AS is_late
        INTO holder
        FROM {schema}.live AS held
        WHERE held.task = add.task AND held.idempotency_key = add.idempotency_key
            AND held.idempotency_key IS NOT NULL
            AND (held.status IN ('pending', 'running') OR held.key_until IS NOT NULL);
        IF NOT FOUND OR holder.is_late THEN
            CONTINUE;
        END IF;
        IF on_conflict = 'raise' AND NOT {schema}.same(holder.payload, add.payload) THEN
            in_the_way := holder.id;
        END IF;
        IF on_conflict <> 'replace' OR holder.status <> 'pending' THEN
            RETURN;
        END IF;
        -- One that runs has been given its payload: no lock of it is waited for. What an
        -- attempt has saved of another payload is of no use to the next one.
        UPDATE {schema}.live AS job
        SET
            payload = add.payload, run_at = add.due, expires_at = add.expires_at,
            updated_at = moment,
            state = CASE WHEN {schema}.same(job.payload, add.payload)
                THEN job.state END,
            progress = CASE WHEN {schema}.same(job.payload, add.payload)
                THEN job.progress END
        WHERE job.id = holder.id AND (job.status = 'pending') IS TRUE
        RETURNING job.id, job.queue, job.priority, job.suspect
        INTO replaced, its_queue, its_priority, is_suspect;
        IF replaced IS NOT NULL THEN
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION USING
        ERRCODE = 'serialization_failure',
        MESSAGE = format(
            'The job of %L that holds the key %L is changed all the time: try again.',
            add.task, add.idempotency_key
        );
END
$function$;

-- Adds jobs as `add` does, all of them or none. Answers a row each, by its place, or
-- nothing but what is in the way of one. Keys are taken in sorted order, so that two
-- batches can't block each other; ids follow the order given.
CREATE FUNCTION {schema}.add_each(
    moment timestamptz,
    queues text[],
    tasks text[],
    payloads json[],
    priorities integer[],
    delays bigint[],
    run_ats timestamptz[],
    expires_ats timestamptz[],
    max_attempts integer[],
    timeouts double precision[],
    backoffs json[],
    metas jsonb[],
    idempotency_keys text[],
    idempotency_fors bigint[],
    on_conflicts text[]
) RETURNS TABLE (
    place bigint,
    made bigint,
    in_the_way bigint,
    its_queue text,
    its_priority integer,
    due timestamptz,
    is_suspect boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    job record;
    it record;
BEGIN
    FOR job IN
        WITH numbered AS MATERIALIZED (
            SELECT each.*, nextval({ids}) AS new_id
            FROM unnest(
                queues, tasks, payloads, priorities, delays, run_ats, expires_ats,
                max_attempts, timeouts, backoffs, metas, idempotency_keys,
                idempotency_fors, on_conflicts
            ) WITH ORDINALITY AS each (
                queue, task, payload, priority, delay, run_at, expires_at, max_attempts,
                timeout, backoff, meta, key, key_for, on_conflict, nth
            )
        )
        SELECT
            numbered.*,
            coalesce(run_at, moment + delay * interval '1 microsecond') AS due_at
        FROM numbered
        ORDER BY numbered.task COLLATE "C", numbered.key COLLATE "C", numbered.nth
    LOOP
        it := {schema}.add(
            job.new_id, moment, coalesce(job.on_conflict, 'skip'), job.task, job.key,
            job.key_for * interval '1 microsecond', job.queue, job.payload, job.priority,
            job.due_at, job.expires_at, job.max_attempts, job.timeout, job.backoff,
            job.meta
        );
        place := job.nth;
        made := it.made;
        in_the_way := it.in_the_way;
        its_queue := it.its_queue;
        its_priority := it.its_priority;
        due := CASE WHEN it.replaced IS NOT NULL THEN job.due_at END;
        is_suspect := it.is_suspect;
        RETURN NEXT;
        IF in_the_way IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'RL002', MESSAGE = 'undone';
        END IF;
    END LOOP;
EXCEPTION
    -- The rows are told all the same, the jobs are not there: a transaction of the
    -- caller's goes on.
    WHEN SQLSTATE 'RL002' THEN
        RETURN;
END
$function$;

-- Keys that `once` was called with.
CREATE TABLE {schema}.once_keys (
    key text COLLATE "C" PRIMARY KEY,
    at timestamptz NOT NULL
);

CREATE INDEX once_keys_at ON {schema}.once_keys (at);

-- Says whether a key comes for the first time; the key is the caller's transaction's, and
-- gone with it where that rolls back. Waits where another transaction is adding it, since
-- that may roll back; where it commits, the answer is false.
CREATE FUNCTION {schema}.once(key text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    IF once.key IS NULL OR {schema}.name_fault(once.key, 'key') IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = coalesce(
                {schema}.name_fault(once.key, 'key'),
                'key can''t be null: it names what is to be done once.'
            );
    END IF;
    INSERT INTO {schema}.once_keys (key, at) VALUES (once.key, statement_timestamp())
    ON CONFLICT (key) DO NOTHING;
    RETURN FOUND;
END
$function$;

REVOKE ALL ON FUNCTION
    {schema}.same, {schema}.add, {schema}.add_each, {schema}.once
FROM PUBLIC;
