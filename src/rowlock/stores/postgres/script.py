"""Migrations as one text for psql, for whoever lets no program change a schema."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock._store import Migration
from rowlock.stores import _sql
from rowlock.stores.postgres.roles import SINCE, Roles
from rowlock.stores.postgres.statements import quoted, text_of, written

_HEADER = """\
-- {what}
-- Run it as the schema's owner, with psql --set=ON_ERROR_STOP=1 --file=<this file>.
-- It is one transaction. Where another is in its way it gives up at once, and
-- nothing has happened: run it again.
SET client_encoding = 'UTF8';
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
"""


def write(todo: Sequence[Migration], schema: str, roles: Roles, *, makes: bool) -> str:
    """
    Write what applies these migrations and grants these roles, as `migrate` would.

    `makes`: the schema too, where it is missing. Empty where there is nothing to do.
    """
    if not todo and not roles:
        return ""
    parts = [written("pin", schema), written("lock_migrations", schema)]
    if todo:
        if makes:
            parts.append(written("create_schema", schema))
        parts.append(written("create_migrations", schema))
    for migration in todo:
        parts.append(f"-- {migration.version:04} {migration.name}")
        parts.append(text_of(migration, schema).strip())
        parts.append(
            written(
                "add_migration",
                schema,
                version=str(migration.version),
                name=migration.name,
                checksum=_sql.checksum(migration),
            )
        )
    if todo and todo[-1].version >= SINCE:
        parts.append(written("grant_again", schema))
    parts += [
        written(operation, schema, role=role) for operation, role in roles.grants()
    ]
    parts.append(written("make_partitions", schema))
    name = " ".join(quoted(schema).split())
    what = f"Grants roles on the schema {name}."
    if todo:
        what = f"Brings the schema {name} to version {todo[-1].version}."
    return _HEADER.format(what=what) + "\n" + "\n\n".join(parts) + "\n\nCOMMIT;\n"
