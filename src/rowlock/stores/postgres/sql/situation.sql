-- Where a session is: what the server's clock says, whether it is a standby's, whether
-- this user sees what other users' sessions do, who the user is, and the number of the
-- process that serves it. Locks nothing.
SELECT
    clock_timestamp(),
    pg_is_in_recovery(),
    pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
    quote_ident(current_user),
    pg_backend_pid();
