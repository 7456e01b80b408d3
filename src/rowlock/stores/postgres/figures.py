"""The figures of a Postgres store."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from rowlock._figures import AHEAD_COUNTED, Place
from rowlock.stores.postgres import rows

if TYPE_CHECKING:
    from datetime import datetime

    from rowlock.stores.postgres.database import Database
    from rowlock.stores.postgres.sessions import Session


class PostgresFigures:
    """A `Figures` for one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def now(self) -> datetime:
        """Tell the server's time; see `Figures.now`."""
        return await self._database.read(_now)

    async def place(self, job_id: int, *, tasks: Collection[str]) -> Place | None:
        """Tell where a job stands; see `Figures.place`."""
        return await self._database.read(partial(_place, job_id=job_id, tasks=tasks))


async def _now(session: Session) -> datetime:
    ((now,),) = await session.run("now")
    told: datetime = now
    return told


async def _place(
    session: Session, *, job_id: int, tasks: Collection[str]
) -> Place | None:
    found = await session.run(
        "place", id=str(job_id), tasks=rows.texts([*tasks]), limit=str(AHEAD_COUNTED)
    )
    return Place(*found[0]) if found else None
