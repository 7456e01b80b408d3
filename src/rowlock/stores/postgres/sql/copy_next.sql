-- The next jobs of the cursor that copy_jobs.sql opened, none at its end; so few that
-- they fit in memory together. Locks nothing.
FETCH FORWARD 100 FROM copied;
