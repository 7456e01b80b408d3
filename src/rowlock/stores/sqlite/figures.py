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
    from datetime import datetime

    from rowlock._clock import Clock
    from rowlock.stores.sqlite.database import Database


class SQLiteFigures:
    """A `Figures` for one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def now(self) -> datetime:
        """Tell the time of this machine, as all who use the file do."""
        return self._clock.now()

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
