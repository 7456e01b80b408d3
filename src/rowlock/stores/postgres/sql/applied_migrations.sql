-- What has been applied, oldest first. Locks nothing.
SELECT version, name, checksum FROM {schema}.migrations ORDER BY version;
