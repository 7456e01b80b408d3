-- Records one migration in the transaction that applied it. Locks its row.
INSERT INTO {schema}.migrations (version, name, checksum, applied_at)
VALUES (%(version)s::integer, %(name)s::text, %(checksum)s::text, {now});
