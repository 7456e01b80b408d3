-- The number of the server's process that serves this connection now. Locks nothing.
SELECT pg_backend_pid();
