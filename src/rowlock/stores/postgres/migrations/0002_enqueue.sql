-- The way in from SQL: `enqueue`, with the checks and the defaults of Python's, in the
-- caller's transaction. A refusal has SQLSTATE 22023 (invalid_parameter_value).
--
-- Like the verbs that follow it acts as the schema's owner, with a search path of its own.

-- Each of these answers with a sentence, or null where there is nothing to refuse. Null
-- as a value is left to the caller.

-- Checks the name of a task or a queue, or a key.
CREATE FUNCTION {schema}.name_fault(value text, argument text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN value = '' THEN format('%s takes a text that isn''t empty.', argument)
    WHEN char_length(value) > 200 THEN
        format('%s has at most 200 characters, not %s.', argument, char_length(value))
END;

-- Checks a duration.
CREATE FUNCTION {schema}.delay_fault(value interval, argument text) RETURNS text
LANGUAGE sql STABLE
RETURN CASE
    WHEN extract(epoch FROM value) < 0 THEN
        format('%s can''t be negative; it was %s.', argument, value)
    WHEN extract(epoch FROM value) > 36525 * 86400::bigint THEN
        format('%s can''t be longer than a century; it was %s.', argument, value)
END;

-- Checks an instant. Python's years have four digits, and a job that it can't read would
-- end the worker that meets it.
CREATE FUNCTION {schema}.instant_fault(value timestamptz, argument text) RETURNS text
LANGUAGE sql STABLE
RETURN CASE
    WHEN value < '0001-01-01 00:00:00+00' OR value >= '10000-01-01 00:00:00+00' THEN
        format('%s takes an instant of the years 1 to 9999, not %s.', argument, value)
END;

-- Checks a job's id.
CREATE FUNCTION {schema}.id_fault(value bigint) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN (value > 0) IS NOT TRUE THEN format(
        'A job''s id is a whole number from 1 to 9223372036854775807, not %s.',
        coalesce(value::text, 'null')
    )
END;

-- Checks the delays of a backoff.
CREATE FUNCTION {schema}.backoff_fault(value interval[]) RETURNS text
LANGUAGE sql STABLE
RETURN CASE
    WHEN cardinality(value) = 0 OR array_ndims(value) > 1
        OR array_position(value, NULL) IS NOT NULL
    THEN 'backoff takes one or more delays, as in ''{5 s, 1 min}'', none of them null.'
    ELSE (
        SELECT min({schema}.delay_fault(each.delay, 'backoff'))
        FROM unnest(value) AS each (delay)
    )
END;

-- Finds the first part of a payload that a handler couldn't be given as it stands: a key
-- that is twice in one object, a number that no float holds, what is nested too deeply.
-- In plpgsql, which plans it once a session.
CREATE FUNCTION {schema}.part_fault(payload json, OUT path text, OUT fault text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
WITH RECURSIVE part (path, value, kind, depth) AS (
    SELECT '$', part_fault.payload, 'object', 1
    UNION ALL
    SELECT inside.path, inside.value, json_typeof(inside.value), part.depth + 1
    FROM part
    CROSS JOIN LATERAL (
        SELECT
            part.path || CASE
                WHEN key ~ '^[[:alpha:]_]\w*$' THEN '.' || key
                ELSE format('[%L]', left(key, 80))
            END,
            value
        FROM json_each(CASE WHEN part.kind = 'object' THEN part.value ELSE '{}' END)
        UNION ALL
        SELECT part.path || format('[%s]', item.place - 1), item.value
        FROM json_array_elements(
            CASE WHEN part.kind = 'array' THEN part.value ELSE '[]' END
        ) WITH ORDINALITY AS item (value, place)
    ) AS inside (path, value)
    WHERE part.depth <= 100 AND part.kind IN ('object', 'array')
        -- The rest has been looked at by a cast.
        AND (
            json_typeof(inside.value) IN ('object', 'array')
            OR json_typeof(inside.value) = 'number'
                AND (inside.value::text ~ '[eE]' OR length(inside.value::text) > 300)
        )
),
judged AS (
    SELECT
        path,
        CASE
            WHEN depth > 100 AND kind IN ('object', 'array') THEN
                'it is nested more than 100 levels deep'
            WHEN kind = 'object' THEN (
                SELECT format('it has %L twice in one object', min(left(key, 80)))
                FROM (
                    SELECT key FROM json_object_keys(value) AS key
                    GROUP BY key HAVING count(*) > 1
                ) AS twice
                HAVING count(*) > 0
            )
            WHEN kind = 'number' AND value::text ~ '[.eE]' THEN
                CASE WHEN abs(value::text::numeric) > 1.7976931348623157e308
                    THEN 'it is a number that no float holds: pass a string' END
            WHEN kind = 'number' AND length(ltrim(value::text, '-')) > 4300 THEN
                'it has more than 4300 digits, which Python won''t read: split it'
        END AS fault
    FROM part
)
SELECT left(judged.path, 200), judged.fault INTO part_fault.path, part_fault.fault
FROM judged
WHERE judged.fault IS NOT NULL
LIMIT 1;
END
$function$;

-- Checks a payload, as `_codec` does: what no store takes, what would be lost on the way,
-- and what no handler could be given.
CREATE FUNCTION {schema}.payload_fault(payload text, task text, most bigint)
RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    path text := '$';
    fault text;
BEGIN
    BEGIN
        fault := CASE
            WHEN payload IS NULL THEN
                'it is null: leave it out where there are no arguments'
            WHEN octet_length(payload) > most THEN format(
                'it makes %s bytes of JSON, and max_payload is %s: keep it elsewhere'
                ' and pass where it is, or raise max_payload',
                octet_length(payload), most
            )
            WHEN json_typeof(payload::json) <> 'object' THEN
                'it must be a JSON object, as in {"n": 1}'
        END;
    EXCEPTION
        WHEN invalid_text_representation THEN
            fault := format('it isn''t JSON (%s)', SQLERRM);
        WHEN statement_too_complex THEN
            fault := 'it is nested too deeply';
    END;
    IF fault IS NULL THEN
        BEGIN
            -- Reads the escapes, which `json` leaves alone.
            PERFORM payload::jsonb;
            SELECT found.path, found.fault INTO path, fault
            FROM {schema}.part_fault(payload::json) AS found;
        EXCEPTION
            WHEN untranslatable_character THEN
                fault := 'it has the character U+0000, which no store takes: remove it';
            WHEN invalid_text_representation THEN
                fault := 'it has a lone surrogate, which isn''t text: remove it';
            WHEN numeric_value_out_of_range OR program_limit_exceeded THEN
                fault := format('it can''t be read (%s)', SQLERRM);
        END;
    END IF;
    IF fault IS NOT NULL THEN
        fault := format(
            '`%s` can''t be stored for task %L: %s.', coalesce(path, '$'), task, fault
        );
    END IF;
    RETURN fault;
END
$function$;

-- Adds a job, unless another of its task holds the key, as it is unfinished or keeps its
-- key for a while: then the answer is null, or what `on_conflict` says (`add`; laws 1, 2,
-- 10). What isn't given is the task's own as apps and workers have told
-- it, and of a task that none has brought yet, Rowlock's. Whoever listens is told when the
-- caller commits. Waits where another transaction is adding the same key.
CREATE FUNCTION {schema}.enqueue(
    task text,
    payload text DEFAULT '{}',
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    delay interval DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    timeout interval DEFAULT NULL,
    backoff interval[] DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    idempotency_for interval DEFAULT NULL,
    on_conflict text DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    moment timestamptz := statement_timestamp();
    refusal text;
    own record;
    due timestamptz;
    it record;
BEGIN
    refusal := coalesce(
        CASE WHEN enqueue.task IS NULL THEN
            'task can''t be null: it is the name of a task.' END,
        {schema}.name_fault(enqueue.task, 'task'),
        {schema}.name_fault(enqueue.queue, 'queue'),
        {schema}.name_fault(enqueue.idempotency_key, 'idempotency_key'),
        CASE WHEN enqueue.priority NOT BETWEEN -100 AND 100 THEN format(
            'priority is a whole number from -100 to 100, larger first; it was %s.',
            enqueue.priority
        ) END,
        CASE WHEN enqueue.max_attempts < 1 THEN format(
            'max_attempts is a whole number of 1 or more; it was %s.',
            enqueue.max_attempts
        ) END,
        {schema}.delay_fault(enqueue.delay, 'delay'),
        {schema}.instant_fault(enqueue.run_at, 'run_at'),
        CASE WHEN enqueue.delay IS NOT NULL AND enqueue.run_at IS NOT NULL THEN format(
            'Say either delay or run_at for %L, not both.', enqueue.task
        ) END,
        {schema}.instant_fault(enqueue.expires_at, 'expires_at'),
        {schema}.delay_fault(enqueue.timeout, 'timeout'),
        {schema}.backoff_fault(enqueue.backoff),
        {schema}.delay_fault(enqueue.idempotency_for, 'idempotency_for'),
        CASE WHEN enqueue.on_conflict NOT IN ('skip', 'raise', 'replace') THEN format(
            'on_conflict is skip, raise or replace, not %s.', enqueue.on_conflict
        ) END,
        CASE
            WHEN enqueue.idempotency_key IS NULL AND (
                enqueue.idempotency_for IS NOT NULL OR enqueue.on_conflict IS NOT NULL
            ) THEN 'idempotency_for and on_conflict are of an idempotency_key: say one.'
        END
    );
    IF refusal IS NULL THEN
        SELECT
            coalesce(known.queue, 'default') AS queue,
            coalesce((known.defaults->>'priority')::integer, 0) AS priority,
            coalesce((known.defaults->>'max_attempts')::integer, 3) AS max_attempts,
            coalesce((known.defaults->>'max_payload')::bigint, 1048576) AS max_payload
        INTO own
        FROM (VALUES (enqueue.task)) AS wanted (name)
        LEFT JOIN {schema}.tasks AS known ON known.name = wanted.name;
        refusal := {schema}.payload_fault(
            enqueue.payload, enqueue.task, own.max_payload
        );
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = refusal;
    END IF;

    -- In UTC, where a day has 24 hours.
    due := coalesce(
        enqueue.run_at,
        (moment AT TIME ZONE 'UTC' + enqueue.delay) AT TIME ZONE 'UTC',
        moment
    );
    it := {schema}.add(
        nextval({ids}), moment, coalesce(enqueue.on_conflict, 'skip'), enqueue.task,
        enqueue.idempotency_key, nullif(enqueue.idempotency_for, interval '0'),
        coalesce(enqueue.queue, own.queue), enqueue.payload::json,
        coalesce(enqueue.priority, own.priority), due, enqueue.expires_at,
        coalesce(enqueue.max_attempts, own.max_attempts),
        extract(epoch FROM enqueue.timeout), {schema}.steps(enqueue.backoff), NULL
    );
    IF it.in_the_way IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'unique_violation',
            MESSAGE = format(
                'Job %s of task %L holds the key %L, with another payload: nothing was'
                ' enqueued.',
                it.in_the_way, enqueue.task, enqueue.idempotency_key
            );
    END IF;
    IF it.made IS NOT NULL OR it.replaced IS NOT NULL THEN
        PERFORM {schema}.tell(
            coalesce(it.its_queue, enqueue.queue, own.queue),
            coalesce(it.its_priority, enqueue.priority, own.priority),
            due,
            enqueue.run_at IS NOT NULL OR enqueue.delay > interval '0'
        );
    END IF;
    RETURN it.made;
END
$function$;

-- The same with a payload of the type that json_build_object and to_jsonb give. As a
-- text it is what any driver sends, and what a literal is taken for.
CREATE FUNCTION {schema}.enqueue(
    task text,
    payload json,
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    delay interval DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    timeout interval DEFAULT NULL,
    backoff interval[] DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    idempotency_for interval DEFAULT NULL,
    on_conflict text DEFAULT NULL
) RETURNS bigint
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
SELECT {schema}.enqueue(
    task, payload::text, queue, priority, delay, run_at, expires_at, max_attempts,
    timeout, backoff, idempotency_key, idempotency_for, on_conflict
);
$function$;

CREATE FUNCTION {schema}.enqueue(
    task text,
    payload jsonb,
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    delay interval DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    timeout interval DEFAULT NULL,
    backoff interval[] DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    idempotency_for interval DEFAULT NULL,
    on_conflict text DEFAULT NULL
) RETURNS bigint
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
SELECT {schema}.enqueue(
    task, payload::text, queue, priority, delay, run_at, expires_at, max_attempts,
    timeout, backoff, idempotency_key, idempotency_for, on_conflict
);
$function$;

-- A list of delays as `Backoff.steps` is stored, with its jitter; null for null.
CREATE FUNCTION {schema}.steps(delays interval[]) RETURNS json
LANGUAGE sql IMMUTABLE STRICT
RETURN json_build_object(
    'kind', 'steps',
    'values', (
        SELECT json_agg(extract(epoch FROM delay)::double precision ORDER BY place)
        FROM unnest(delays) WITH ORDINALITY AS step (delay, place)
    ),
    'cap', NULL,
    'jitter', 0.1
);

-- Tells sleepers of one job, as `notify.py` writes it.
CREATE FUNCTION {schema}.tell(
    queue text, priority integer, due timestamptz, is_deferred boolean
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    micros bigint := extract(epoch FROM due) * 1000000;
BEGIN
    PERFORM pg_notify({channel_name}, json_build_array(json_build_array(
        queue, priority, micros, CASE WHEN is_deferred THEN micros END
    ))::text);
END
$function$;
