-- Where a session is: whether it is a standby's, whether this user sees what other users'
-- sessions do, what lets him, and who he is. Locks nothing.
SELECT
    pg_is_in_recovery(),
    pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
    'GRANT pg_read_all_stats TO ' || quote_ident(current_user),
    current_user::text;
