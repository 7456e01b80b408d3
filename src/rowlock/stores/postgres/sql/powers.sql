-- Who owns the schema, or would as who runs this; whether that is a superuser; and of a
-- role whether it is one, and whether it may act as the owner. No row where there is no
-- such role. Locks nothing.
SELECT
    owner.rolname::text, owner.rolsuper, worker.rolsuper,
    pg_has_role(worker.oid, owner.oid, 'MEMBER')
FROM pg_roles AS worker
JOIN pg_roles AS owner ON owner.oid = coalesce(
    (SELECT nspowner FROM pg_namespace WHERE nspname = {schema_name}),
    (SELECT oid FROM pg_roles WHERE rolname = current_user)
)
WHERE worker.rolname = %(role)s::text;
