-- What an operator runs on a standby whose readers are to hold up nobody, and may be cut
-- off. Shown, and never run from here; as such it locks nothing.
ALTER SYSTEM SET hot_standby_feedback = off;
