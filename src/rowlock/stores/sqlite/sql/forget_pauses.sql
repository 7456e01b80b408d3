-- Drops pauses that have ended. Under the write lock.
DELETE FROM rowlock_pauses WHERE until <= :now;
