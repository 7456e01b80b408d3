-- What an operator runs first where all that is new only reads. Shown, and never run
-- from here; as such it locks nothing.
SET default_transaction_read_only = off;
