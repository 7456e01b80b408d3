-- Who may do what. The owner is who migrates; a worker's role and a producer's are
-- granted what they need by the functions below, if they are wanted at all.

-- Nobody else may run anything: most of these act with the owner's rights.
REVOKE ALL ON FUNCTION
    {schema}.iso, {schema}.noted, {schema}.fits, {schema}.make_partition,
    {schema}.name_fault,
    {schema}.delay_fault, {schema}.instant_fault, {schema}.id_fault,
    {schema}.backoff_fault, {schema}.part_fault, {schema}.payload_fault,
    {schema}.enqueue(
        text, text, text, integer, interval, timestamptz, timestamptz, integer,
        interval, interval[], text, interval, text
    ),
    {schema}.enqueue(
        text, json, text, integer, interval, timestamptz, timestamptz, integer,
        interval, interval[], text, interval, text
    ),
    {schema}.enqueue(
        text, jsonb, text, integer, interval, timestamptz, timestamptz, integer,
        interval, interval[], text, interval, text
    ),
    {schema}.steps, {schema}.tell, {schema}.stands, {schema}.cancel, {schema}.replay,
    {schema}.dead, {schema}.replayed, {schema}.revive, {schema}.refuse_write,
    {schema}.hold, {schema}.has_day
FROM PUBLIC;

-- Lets a role call the functions, and nothing else.
CREATE FUNCTION {schema}.grant_producer(role name) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.check_role(role);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', {schema_name}, role);
    EXECUTE format(
        'GRANT EXECUTE ON FUNCTION'
        ' %1$I.enqueue('
        'text, text, text, integer, interval, timestamptz, timestamptz, integer,'
        ' interval, interval[], text, interval, text),'
        ' %1$I.enqueue('
        'text, json, text, integer, interval, timestamptz, timestamptz, integer,'
        ' interval, interval[], text, interval, text),'
        ' %1$I.enqueue('
        'text, jsonb, text, integer, interval, timestamptz, timestamptz, integer,'
        ' interval, interval[], text, interval, text),'
        ' %1$I.cancel, %1$I.replay, %1$I.once TO %2$I',
        {schema_name}, role
    );
END
$function$;

-- Lets a role do all that a worker and an operator do, and makes the history its own:
-- only an owner attaches and detaches partitions, with CREATE on their schema. Waits
-- until nobody reads the history, where it was another's.
CREATE FUNCTION {schema}.grant_worker(role name) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    relation regclass;
BEGIN
    PERFORM {schema}.check_role(role);
    IF NOT pg_has_role(current_user, role, 'USAGE') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format(
                'The history is to be the role %1$I''s, and this user must be a member'
                ' of it: run GRANT %1$I TO %2$I first.',
                role, current_user
            );
    END IF;
    PERFORM {schema}.grant_producer(role);
    EXECUTE format('GRANT CREATE ON SCHEMA %I TO %I', {schema_name}, role);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON'
        ' %1$I.live, %1$I.pauses, %1$I.workers, %1$I.tasks, %1$I.replay_rules,'
        ' %1$I.once_keys TO %2$I',
        {schema_name}, role
    );
    -- To write to the view is refused to all; with the right to, in a better sentence.
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON %I.jobs TO %I', {schema_name}, role
    );
    EXECUTE format('GRANT SELECT ON %I.migrations TO %I', {schema_name}, role);
    EXECUTE format('GRANT USAGE ON SEQUENCE %I.ids TO %I', {schema_name}, role);
    EXECUTE format(
        'GRANT EXECUTE ON FUNCTION %1$I.iso, %1$I.noted, %1$I.fits, %1$I.same,'
        ' %1$I.add, %1$I.add_each, %1$I.make_partition, %1$I.hold, %1$I.has_day'
        ' TO %2$I',
        {schema_name}, role
    );
    FOR relation IN
        SELECT pg_class.oid
        FROM pg_partition_tree(format('%I.history', {schema_name})::regclass) AS part
        JOIN pg_class ON pg_class.oid = part.relid
        WHERE pg_get_userbyid(relowner) <> role
        ORDER BY part.level, pg_class.oid
    LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO %I', relation, role);
    END LOOP;
END
$function$;

-- Sees that there is such a role; roles are the whole server's, and made by its owner.
CREATE FUNCTION {schema}.check_role(role name) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format(
                'There is no role %1$I: make it first, as by CREATE ROLE %1$I LOGIN.',
                role
            );
    END IF;
END
$function$;

-- Grants again what was granted, so that roles have what a migration has brought.
CREATE FUNCTION {schema}.grant_again() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    owner oid;
    worker oid;
BEGIN
    SELECT live.relowner, history.relowner INTO owner, worker
    FROM pg_class AS live, pg_class AS history
    WHERE live.oid = format('%I.live', {schema_name})::regclass
        AND history.oid = format('%I.history', {schema_name})::regclass;
    IF worker <> owner THEN
        PERFORM {schema}.grant_worker(pg_get_userbyid(worker));
    END IF;
    PERFORM {schema}.grant_producer(pg_get_userbyid(granted.grantee))
    FROM pg_proc, aclexplode(proacl) AS granted
    WHERE pg_proc.oid = format('%I.cancel(bigint)', {schema_name})::regprocedure
        AND granted.grantee NOT IN (0, owner, worker);
END
$function$;

REVOKE ALL ON FUNCTION
    {schema}.grant_producer, {schema}.grant_worker, {schema}.check_role,
    {schema}.grant_again
FROM PUBLIC;
