-- What a job has to be in every statement that lists ({fits}), beside what each looks for
-- by its index: all of these conditions. What is null does not restrict.
(:task IS NULL OR task = :task)
AND (:queue IS NULL OR queue = :queue)
AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
AND (:created_before IS NULL OR created_at <= :created_before)
AND (:created_after IS NULL OR created_at >= :created_after)
AND (:finished_before IS NULL OR finished_at <= :finished_before)
AND (:finished_after IS NULL OR finished_at >= :finished_after)
AND (:least_priority IS NULL OR priority >= :least_priority)
AND (:most_priority IS NULL OR priority <= :most_priority)
AND (:least_attempts IS NULL OR attempts >= :least_attempts)
AND (:most_attempts IS NULL OR attempts <= :most_attempts)
AND (:worker IS NULL OR worker = :worker)
AND (:error IS NULL OR instr(last_error, :error) > 0)
AND (
    :error_type IS NULL
    OR substr(
        '.' || substr(last_error, 1, instr(last_error || ':', ':') - 1),
        -length(:error_type) - 1
    ) = '.' || :error_type
)
