"""JSON as it stands in rows: written tightly, and read though a hand has been there."""

from __future__ import annotations

import json
from typing import Any

from rowlock._job import JSON


def write_json(value: JSON) -> str:
    """Write JSON text that the functions of a database can read too."""
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=dict
    )


def read_json(text: str | None) -> Any:  # noqa: ANN401 - JSON, of the column's own shape
    """Read a column of JSON; what somebody has written there by hand, as it is."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        # Too deep, or with too long a number: one row must not fail the claim or the
        # page that it is in.
        return text
