"""Whether a payload has the fields that a filter asks for: SQLite itself can't tell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache, partial

# As exact as what Postgres compares: a number is what is written.
_read = partial(json.loads, parse_float=Decimal)


def fits(payload: object, fields: str) -> bool:
    """Compare a payload with fields, both as text; what is no JSON fits nothing."""
    if not isinstance(payload, str):
        return False
    try:
        return _has(_read(payload), _fields(fields))
    except (ValueError, RecursionError):
        return False


@lru_cache(maxsize=8)
def _fields(text: str) -> object:
    return _read(text)


def _has(found: object, asked: object) -> bool:
    if isinstance(asked, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and _has(found[name], value) for name, value in asked.items()
        )
    # To Python true is 1.
    if isinstance(asked, bool) or isinstance(found, bool):
        return found is asked
    return found == asked
