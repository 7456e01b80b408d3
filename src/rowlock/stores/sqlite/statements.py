"""This store's statements, by operation, and what may run them."""

from __future__ import annotations

import sqlite3
from typing import Final, TypeAlias

from rowlock.stores import _sql

PACKAGE: Final = "rowlock.stores.sqlite"
SQL: Final = _sql.statements(PACKAGE)

# A connection, or the cursor that is used on a connection lent.
Executor: TypeAlias = sqlite3.Connection | sqlite3.Cursor
