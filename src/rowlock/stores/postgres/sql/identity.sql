-- Which database this is, of all there are. Locks nothing.
SELECT system_identifier::text, current_database()::text FROM pg_control_system();
