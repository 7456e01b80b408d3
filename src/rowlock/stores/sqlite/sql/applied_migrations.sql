-- What has been applied, oldest first. Locks nothing.
SELECT +version, +name, +checksum FROM rowlock_migrations ORDER BY version;
