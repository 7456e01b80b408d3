"""The figures of an SQLite store."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from rowlock._figures import AHEAD_COUNTED, Place
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

    from rowlock.stores.sqlite.database import Database


class SQLiteFigures:
    """A `Figures` for one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def place(self, job_id: int, *, tasks: Collection[str]) -> Place | None:
        """Tell where a job stands; see `Figures.place`."""
        return await self._database.read(partial(_place, job_id=job_id, tasks=tasks))


def _place(
    connection: sqlite3.Connection, now: int, *, job_id: int, tasks: Collection[str]
) -> Place | None:
    found = connection.execute(
        SQL["place"],
        {
            "id": job_id,
            "now": now,
            "tasks": json.dumps([*tasks]),
            "limit": AHEAD_COUNTED,
        },
    ).fetchone()
    if found is None:
        return None
    is_suspect, *counts = found
    return Place(bool(is_suspect), *counts)
