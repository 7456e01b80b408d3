-- The next jobs of the cursor that copy_jobs.sql opened, none at its end. Ten: a part has
-- a hundred of them, but fewer where they are large, of which only so many too much are
-- then in memory. Locks nothing.
FETCH FORWARD 10 FROM copied;
