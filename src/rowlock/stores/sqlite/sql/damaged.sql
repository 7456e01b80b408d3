-- Jobs in which a hand has written what isn't of its column's kind, which SQLite lets
-- pass and no other store does; of each the first such column, by id. The bounds are
-- those of Python's years, of Postgres' integers and of its checks; a NUL is in no text
-- of Postgres. Reads the whole table. Locks nothing.
SELECT id, damaged
FROM (
    SELECT
        id,
        CASE
            WHEN typeof(run_at) <> 'integer'
                OR run_at NOT BETWEEN -62135596800000000 AND 253402300799999999
                THEN 'run_at'
            WHEN typeof(expires_at) NOT IN ('integer', 'null')
                OR expires_at NOT BETWEEN -62135596800000000 AND 253402300799999999
                THEN 'expires_at'
            WHEN typeof(created_at) <> 'integer'
                OR created_at NOT BETWEEN 0 AND 253370764799999999 THEN 'created_at'
            WHEN typeof(updated_at) <> 'integer'
                OR updated_at NOT BETWEEN 0 AND 253370764799999999 THEN 'updated_at'
            WHEN typeof(started_at) NOT IN ('integer', 'null')
                OR started_at NOT BETWEEN 0 AND 253370764799999999 THEN 'started_at'
            WHEN typeof(finished_at) NOT IN ('integer', 'null')
                OR finished_at NOT BETWEEN 1 AND 253370764799999999
                THEN 'finished_at'
            WHEN typeof(cancel_requested_at) NOT IN ('integer', 'null')
                OR cancel_requested_at NOT BETWEEN 0 AND 253370764799999999
                THEN 'cancel_requested_at'
            WHEN typeof(timeout) NOT IN ('real', 'null') THEN 'timeout'
            WHEN typeof(priority) <> 'integer'
                OR priority NOT BETWEEN -2147483648 AND 2147483647 THEN 'priority'
            WHEN typeof(max_attempts) <> 'integer'
                OR max_attempts NOT BETWEEN 0 AND 2147483647 THEN 'max_attempts'
            WHEN typeof(claims) <> 'integer' OR claims NOT BETWEEN 0 AND 999999999
                THEN 'claims'
            WHEN typeof(attempts) <> 'integer' OR attempts NOT BETWEEN 0 AND 999999999
                THEN 'attempts'
            WHEN typeof(failures) <> 'integer' OR failures NOT BETWEEN 0 AND 999999999
                THEN 'failures'
            WHEN typeof(losses) <> 'integer' OR losses NOT BETWEEN 0 AND 999999999
                THEN 'losses'
            WHEN typeof(auto_replays) <> 'integer'
                OR auto_replays NOT BETWEEN 0 AND 999999999 THEN 'auto_replays'
            WHEN typeof(queue) <> 'text' OR instr(queue, char(0)) THEN 'queue'
            WHEN typeof(task) <> 'text' OR instr(task, char(0)) THEN 'task'
            WHEN typeof(worker) = 'blob' OR instr(worker, char(0)) THEN 'worker'
            WHEN typeof(idempotency_key) = 'blob' OR instr(idempotency_key, char(0))
                THEN 'idempotency_key'
            WHEN typeof(idempotency_for) NOT IN ('integer', 'null')
                OR idempotency_for NOT BETWEEN 0 AND 3155760000000000
                THEN 'idempotency_for'
            WHEN typeof(last_error) = 'blob' THEN 'last_error'
            WHEN typeof(fingerprint) = 'blob' OR instr(fingerprint, char(0))
                THEN 'fingerprint'
            WHEN NOT json_valid(coalesce(backoff, 'null')) THEN 'backoff'
            WHEN NOT json_valid(coalesce(progress, 'null')) THEN 'progress'
            WHEN NOT json_valid(coalesce(state, 'null')) THEN 'state'
            WHEN NOT json_valid(coalesce(result, 'null')) THEN 'result'
            WHEN NOT json_valid(payload) THEN 'payload'
            WHEN NOT json_valid(meta) OR json_type(meta) <> 'object' THEN 'meta'
            WHEN NOT json_valid(errors) OR json_type(errors) <> 'array' THEN 'errors'
        END AS damaged
    FROM rowlock_rows
)
WHERE damaged IS NOT NULL
ORDER BY id
LIMIT :limit;
