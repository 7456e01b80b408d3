"""This store's statements, by operation."""

from __future__ import annotations

from typing import Final

from rowlock.stores import _sql

PACKAGE: Final = "rowlock.stores.sqlite"
SQL: Final = _sql.statements(PACKAGE)
