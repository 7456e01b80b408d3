"""
Recovering what lost workers held, and pruning what finished long ago.

Every worker does it, none leads: each step is bounded, fenced, and safe beside others.
Times are spread so that workers don't meet.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowlock import _outcome
from rowlock._events import UpkeepDone
from rowlock._job import Claim
from rowlock._worker.report import recovered

if TYPE_CHECKING:
    from datetime import timedelta

    from rowlock._events import Events
    from rowlock._store import Retention, Store
    from rowlock._worker.outage import Outage

BATCH = 100
PRUNE_BATCH = 1000
LONGEST_RECOVER_PAUSE_S = 15.0
PRUNE_PAUSE_S = 3600.0
# Between two batches of pruning, so that it stays off everybody's path.
PRUNE_BREATH_S = 0.01


class Upkeep:
    """The upkeep loops of one worker."""

    def __init__(
        self, store: Store, outage: Outage, events: Events, *, worker: str
    ) -> None:
        self._store = store
        self._outage = outage
        self._events = events
        self._worker = worker

    async def recover_loop(self, lease: timedelta) -> None:
        """Recover until cancelled."""
        pause = min(lease.total_seconds() / 4, LONGEST_RECOVER_PAUSE_S)
        while True:
            await self.recover()
            await asyncio.sleep(_spread(pause))

    async def prune_loop(self, retention: Retention) -> None:
        """Prune at the start, then hourly, until cancelled."""
        while True:
            await self._outage.outlast(lambda: self.prune(retention))
            await asyncio.sleep(_spread(PRUNE_PAUSE_S))

    async def recover(self) -> int:
        """Recover every claim whose lease is over; tell how many were."""
        count = 0
        while claims := await self._lost():
            count += await self._recover(claims)
            if len(claims) < BATCH:
                break
        return count

    async def _lost(self) -> Sequence[Claim]:
        return await self._outage.outlast(
            lambda: self._store.lost(BATCH), writing=False
        )

    async def prune(self, retention: Retention) -> int:
        """Prune until nothing is left; tell how many jobs are gone."""
        expired = deleted = 0
        while True:
            pruned = await self._store.prune(retention, limit=PRUNE_BATCH)
            expired += pruned.expired
            deleted += pruned.deleted
            if pruned.expired < PRUNE_BATCH and pruned.deleted < PRUNE_BATCH:
                break
            await asyncio.sleep(PRUNE_BREATH_S)
        self._events.emit(
            UpkeepDone(worker=self._worker, expired=expired, pruned=deleted)
        )
        return deleted

    async def _recover(self, claims: Sequence[Claim]) -> int:
        outcomes = [_outcome.lost(claim) for claim in claims]
        settled = await self._outage.outlast(lambda: self._store.finish(outcomes))
        count = 0
        for claim, outcome, answer in zip(claims, outcomes, settled, strict=True):
            # Refused: its worker was faster, or another one recovered it.
            if not answer.accepted:
                continue
            count += 1
            for event in recovered(claim, outcome, answer):
                self._events.emit(event)
        return count


def _spread(pause: float) -> float:
    return pause * random.uniform(0.8, 1.2)  # noqa: S311 - spread
