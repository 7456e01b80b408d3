-- Adds a failure, a loss or an operator's act to a job's errors, of which the last ten
-- stay; each call adds one, so at most one has to go. Under the write lock, after the
-- change that it tells of. What a hand has written there that is no list of JSON becomes
-- the first entry, or it would undo the batch that it is in.
UPDATE rowlock_rows
SET
    errors = json_insert(
        CASE
            WHEN NOT json_valid(errors) OR json_type(errors) <> 'array'
                THEN json_array(json_object('unreadable', errors))
            WHEN json_array_length(errors) < 10 THEN errors
            ELSE json_remove(errors, '$[0]')
        END,
        '$[#]',
        json(:entry)
    ),
    last_error = coalesce(:last_error, last_error)
WHERE id = :id;
