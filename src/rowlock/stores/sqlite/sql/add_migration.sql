-- Records one migration in the transaction that applied it, under the write lock.
INSERT INTO rowlock_migrations (version, name, checksum, applied_at)
VALUES (:version, :name, :checksum, :now);
