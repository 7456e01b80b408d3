"""
What stands in a database's catalogue, as text that is the same on every version.

The snapshot is what all migrations make of an empty database; the checksums are those
of the migrations, which never change once they are released. After a new migration

    python -m tests.catalogue

writes the one anew and adds to the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg

from rowlock.stores import _sql, connect
from rowlock.stores.postgres.migrate import all_migrations

from .cluster.binaries import find
from .cluster.databases import Databases
from .cluster.membership import own

DATA = Path(__file__).parent / "data"
SNAPSHOT = DATA / "postgres-catalogue.txt"
CHECKSUMS = DATA / "postgres-migrations.sha256"

# What is a partition is a day's, and what is `n` was no constraint before version 18.
QUERIES = {
    "schema": """
        SELECT 'schema', {acl:nspacl}
        FROM pg_namespace, LATERAL (SELECT nspowner AS owner) AS its
        WHERE nspname = %(schema)s
    """,
    "relations": """
        SELECT
            CASE relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table'
                WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' ELSE relkind::text END,
            relname, coalesce(reloptions::text, ''),
            coalesce(pg_get_partkeydef(c.oid), ''), {acl:relacl}
        FROM {classes} AS c, LATERAL (SELECT relowner AS owner) AS its
        WHERE relkind IN ('r', 'p', 'v', 'S')
        ORDER BY relname
    """,
    "columns": """
        SELECT
            relname || '.' || attname, format_type(atttypid, atttypmod),
            CASE attcollation WHEN 0 THEN '' ELSE attcollation::regcollation::text END,
            CASE WHEN attnotnull THEN 'not null' ELSE '' END,
            coalesce(pg_get_expr(adbin, adrelid), ''), attidentity::text
        FROM {classes} AS c
        JOIN pg_attribute AS a ON a.attrelid = c.oid
        LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
        WHERE attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'p', 'v')
        ORDER BY relname, attnum
    """,
    "sequences": """
        SELECT relname, format_type(seqtypid, NULL), seqstart::text, seqincrement::text,
            seqmin::text, seqmax::text, seqcache::text, seqcycle::text
        FROM {classes} AS c JOIN pg_sequence ON seqrelid = c.oid
        ORDER BY relname
    """,
    "constraints": """
        SELECT relname || '.' || conname, pg_get_constraintdef(k.oid)
        FROM {classes} AS c JOIN pg_constraint AS k ON k.conrelid = c.oid
        WHERE contype <> 'n'
        ORDER BY relname, conname
    """,
    "indexes": """
        SELECT pg_get_indexdef(indexrelid)
        FROM {classes} AS c JOIN pg_index ON indrelid = c.oid
        ORDER BY relname, indexrelid::regclass::text
    """,
    "triggers": """
        SELECT pg_get_triggerdef(t.oid)
        FROM {classes} AS c JOIN pg_trigger AS t ON t.tgrelid = c.oid
        WHERE NOT tgisinternal
        ORDER BY relname, tgname
    """,
    "views": """
        SELECT pg_get_viewdef(c.oid) FROM {classes} AS c
        WHERE relkind = 'v'
        ORDER BY relname
    """,
    "functions": """
        SELECT pg_get_functiondef(p.oid), {acl:proacl}
        FROM pg_proc AS p, LATERAL (SELECT proowner AS owner) AS its
        WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
        ORDER BY proname, pg_get_function_identity_arguments(p.oid)
    """,
}
CLASSES = """(
    SELECT * FROM pg_class
    WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
        AND NOT relispartition
)"""
ACL = """coalesce((
    SELECT string_agg(
        CASE grantee WHEN 0 THEN 'PUBLIC' WHEN owner THEN 'owner'
            ELSE pg_get_userbyid(grantee) END || ' ' || privilege_type,
        ', ' ORDER BY grantee <> owner, pg_get_userbyid(grantee), privilege_type
    )
    FROM aclexplode({0})
    -- What an owner of a table may do differs between versions.
    WHERE grantee <> owner OR '{0}' <> 'relacl'
), 'default')"""


def dump(url: str, schema: str = "rowlock") -> str:
    """Write down all that a schema has; the same text for the same schema."""
    return "\n".join(_lines(url, schema))


def _lines(url: str, schema: str) -> Iterator[str]:
    with psycopg.connect(url, options="-c search_path=pg_catalog") as own:
        for title, query in QUERIES.items():
            yield f"== {title}"
            for row in own.execute(_filled(query), {"schema": schema}):
                yield " | ".join(row).rstrip(" |")
            yield ""


def _filled(query: str) -> bytes:
    query = query.replace("{classes}", CLASSES)
    for column in ("nspacl", "relacl", "proacl"):
        query = query.replace(f"{{acl:{column}}}", ACL.format(column))
    return query.encode()


def checksums() -> dict[str, str]:
    """What each migration has now, by file."""
    return {
        f"{migration.version:04}_{migration.name}.sql": _sql.checksum(migration)
        for migration in all_migrations()
    }


def recorded() -> dict[str, str]:
    """What each migration had when it was recorded, by file."""
    lines = CHECKSUMS.read_text().splitlines() if CHECKSUMS.exists() else []
    return {file: value for value, file in (line.split("  ") for line in lines)}


def main() -> None:
    """Write the snapshot anew, and the checksums of what wasn't recorded yet."""
    with own(find("")) as cluster:
        databases = Databases(admin_url=cluster.url, session="", cluster=cluster)
        url = databases.empty("catalogue")
        asyncio.run(_migrate(url))
        SNAPSHOT.write_text(dump(url))
    kept = checksums() | recorded()
    CHECKSUMS.write_text("".join(f"{kept[file]}  {file}\n" for file in sorted(kept)))


async def _migrate(url: str) -> None:
    store = connect(url)
    await store.migrate()
    await store.close()


if __name__ == "__main__":
    main()
