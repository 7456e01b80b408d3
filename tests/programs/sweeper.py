"""A worker that dies in the middle of a recovery: it has looked, and not written."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from rowlock import App
from tests.journal import Journal
from tests.serve import serve

from . import gated

if TYPE_CHECKING:
    from rowlock._job import Claim
    from rowlock._store import Store


class DeadlySweep:
    """A store that kills whoever has found claims whose lease is over."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store = store
        self._journal = journal

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def lost(self, limit: int, *, worker: str | None = None) -> Sequence[Claim]:
        """Look; where there is something to recover, write that down and die."""
        claims = await self._store.lost(limit, worker=worker)
        if claims:
            self._journal.record("swept", count=len(claims))
            os.kill(os.getpid(), signal.SIGKILL)
        return claims


def register(app: App, journal: Journal) -> None:
    gated.register(app, journal)
    app._access.store = cast("Store", DeadlySweep(app._store, journal))


if __name__ == "__main__":
    serve(register)
