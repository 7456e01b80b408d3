-- Lets the statements of a migration take their time, but not wait: while one waits for
-- a table, all who come after it wait behind. Two such waits in a row are shorter than
-- the second that a worker waits. Locks nothing.
SELECT
    set_config('statement_timeout', '0', true),
    set_config('lock_timeout', '500ms', true);
