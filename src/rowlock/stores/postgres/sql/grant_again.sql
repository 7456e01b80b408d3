-- Gives the roles of before what a migration has brought. Locks as grant_worker.sql does.
SELECT {schema}.grant_again();
