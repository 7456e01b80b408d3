"""
This store's statements, with their slots filled.

The slots are the schema and what is named after it, and the store's now: the server's
clock, or a parameter where a test moves the time. Those of parts are filled before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from psycopg import sql

from rowlock._store import Migration
from rowlock.stores import _sql
from rowlock.stores.postgres.address import LONGEST_NAME

PACKAGE: Final = "rowlock.stores.postgres"

SERVERS_NOW = "statement_timestamp()"
GIVEN_NOW = "%(now)s::timestamptz"


def statements(schema: str, *, now: str) -> Mapping[str, bytes]:
    """Give the statements on a schema, by operation, as psycopg takes them."""
    # psycopg reads a % of its own.
    slots = {slot: text.replace("%", "%%") for slot, text in _slots(schema).items()} | {
        "{now}": now
    }
    return {
        operation: _fill(text, slots).encode()
        for operation, text in _sql.statements(PACKAGE).items()
    }


def text_of(migration: Migration, schema: str) -> str:
    """Fill the slots of a migration."""
    return _fill(migration.sql, _slots(schema))


def written(operation: str, schema: str, **values: str) -> str:
    """Write a statement with its values in it, for whoever runs it elsewhere."""
    slots = _slots(schema) | {"{now}": SERVERS_NOW}
    slots |= {f"%({name})s": _literal(value) for name, value in values.items()}
    return _fill(_sql.statements(PACKAGE)[operation], slots)


def quoted(name: str) -> str:
    """Write a name as SQL takes any name."""
    return sql.Identifier(name).as_string()


def channel(schema: str) -> str:
    """Name the channel on which a schema's news are told."""
    name = f"rowlock:{schema}"
    if len(name.encode()) <= LONGEST_NAME:
        return name
    return f"rowlock:{hashlib.sha256(schema.encode()).hexdigest()[:32]}"


def _slots(schema: str) -> dict[str, str]:
    return {
        "{schema}": quoted(schema),
        "{schema_name}": _literal(schema),
        "{ids}": f"{_literal(f'{quoted(schema)}.ids')}::regclass",
        "{channel}": quoted(channel(schema)),
        "{channel_name}": _literal(channel(schema)),
    }


def _literal(text: str) -> str:
    return sql.Literal(text).as_string()


def _fill(text: str, slots: Mapping[str, str]) -> str:
    # At once: a schema may be called what is a slot itself.
    slot = re.compile("|".join(map(re.escape, slots)))
    return slot.sub(lambda found: slots[found[0]], text)
