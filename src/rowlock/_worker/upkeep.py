"""
Recovering what lost workers held, expiring what comes too late, pruning what is old.

Every worker does it, none leads: each step is bounded, fenced, and safe beside others.
Times are spread so that workers don't meet.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rowlock import _outcome
from rowlock._chance import CHANCE
from rowlock._durations import LONGEST
from rowlock._events.worker import UpkeepDone
from rowlock._job import Claim
from rowlock._store import Pruned, Retention
from rowlock._worker.report import recovered

if TYPE_CHECKING:
    from rowlock._worker.buffer import Buffer
    from rowlock._worker.outage import Outage
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings

BATCH = 100
PRUNE_BATCH = 1000
LONGEST_PAUSE_S = 15.0
PRUNE_PAUSE_S = 3600.0
# Claims pass by what has expired, so only its status is late, whatever the lease is.
EXPIRE_PAUSE_S = 15.0
# Of its worker's looks at a claim whose row its handler has, how many it is given.
LOOKS = 3
# For how long, and how often, a dead worker's row that is locked is tried again.
LONGEST_DEATH_S = 30.0
DEATH_PAUSE_S = 0.25
# After which a server has done what a client that is dead had sent it.
LATE_CLAIM_S = 1.0
# Between two batches of pruning, so that it stays off everybody's path.
PRUNE_BREATH_S = 0.01

# A pruning that deletes nothing. What has expired can't wait for the hourly one: each
# claim steps over it, and its status says that it is still to run.
KEEP_ALL = Retention(succeeded=LONGEST, cancelled=LONGEST, failed=LONGEST, once=LONGEST)


class Upkeep:
    """
    The upkeep loops of one worker.

    To itself a worker is never lost, whatever a lease says: what it `runs` is extended
    instead, and what it was never told of goes back.
    """

    def __init__(
        self,
        settings: Settings,
        outage: Outage,
        runs: Runs,
        buffer: Buffer,
    ) -> None:
        self._settings = settings
        self._store = settings.store
        self._extensions = settings.extensions
        self._retention = settings.retention
        self._worker = settings.worker
        self._outage = outage
        self._runs = runs
        self._buffer = buffer
        self._pause_s = min(settings.lease_s / 4, LONGEST_PAUSE_S)
        self._patience_s = settings.soon_s * LOOKS

    async def recover_loop(self) -> None:
        """Recover until cancelled."""
        while True:
            await self.recover(patience_s=self._patience_s)
            await asyncio.sleep(_spread(self._pause_s))

    async def expire_loop(self) -> None:
        """Expire until cancelled."""
        while True:
            await self._outage.outlast(self.expire)
            await asyncio.sleep(_spread(EXPIRE_PAUSE_S))

    async def prune_loop(self) -> None:
        """Prune at the start, then hourly, until cancelled."""
        while True:
            await self._outage.outlast(lambda: self.prune(self._retention))
            await asyncio.sleep(_spread(PRUNE_PAUSE_S))

    async def recover(self, *, patience_s: float = 0.0) -> int:
        """
        Recover every claim whose lease is over; tell how many were.

        One whose row a handler had in its own transaction couldn't be renewed until
        that was over: with patience its worker, if it lives, is faster.
        """
        count = 0
        while claims := await self._lost():
            ours = [each for each in claims if self._is_ours(each)]
            lost: Sequence[Claim] = [each for each in claims if not self._is_ours(each)]
            if ours:
                await self._outage.outlast(partial(self._extend, ours))
                self._buffer.refuse_unknown(ours)
            if lost and patience_s:
                lost = await self._still_lost(lost, patience_s)
                patience_s = 0.0  # once, or a thousand would take as many moments
            count += await self._recover(lost)
            if len(claims) < BATCH or not lost:
                break
        return count

    async def recover_dead(self, worker: str) -> int:
        """
        Recover what a worker known to be dead held, whatever its leases (law 9).

        A row that a transaction of its still locks, as its server hasn't noticed yet,
        is tried again for a while, then left to its lease. A claim of its that was on
        its way is made when nobody waits for it, so there is a second look.
        """
        recovered = await self._recover_all_of(worker)
        await asyncio.sleep(LATE_CLAIM_S)
        return recovered + await self._recover_all_of(worker)

    async def _recover_all_of(self, worker: str) -> int:
        count, until = 0, time.monotonic() + LONGEST_DEATH_S
        while claims := await self._outage.outlast(
            lambda: self._store.lost(BATCH, worker=worker), writing=False
        ):
            recovered = await self._recover(claims)
            count += recovered
            if not recovered and time.monotonic() >= until:
                break
            if not recovered:
                await asyncio.sleep(DEATH_PAUSE_S)
        return count

    def _is_ours(self, claim: Claim) -> bool:
        return claim.worker == self._worker and claim.key not in self._runs.left

    async def _extend(self, ours: Sequence[Claim]) -> None:
        """Renew in place of the thread that should have, but hangs."""
        now, lease_s = time.monotonic(), self._settings.lease_s
        runs = filter(None, [self._runs.get(each.key) for each in ours])
        keys = [run.key for run in runs if run.is_renewed(now, lease_s)]
        if keys:
            await self._store.renew(
                keys, worker=self._worker, lease=self._settings.lease
            )

    async def _lost(self) -> Sequence[Claim]:
        return await self._outage.outlast(
            lambda: self._store.lost(BATCH), writing=False
        )

    async def _still_lost(self, claims: Sequence[Claim], after_s: float) -> list[Claim]:
        await asyncio.sleep(after_s)
        still = {claim.key for claim in await self._lost()}
        return [claim for claim in claims if claim.key in still]

    async def expire(self) -> None:
        """Expire until nothing is left; told where there was something."""
        pruned = await self._prune(KEEP_ALL)
        if pruned.expired:
            self._tell(pruned)

    async def prune(self, retention: Retention) -> None:
        """Prune until nothing is left."""
        self._tell(await self._prune(retention))

    async def _prune(self, retention: Retention) -> Pruned:
        expired = deleted = 0
        while True:
            pruned = await self._store.prune(retention, limit=PRUNE_BATCH)
            expired += pruned.expired
            deleted += pruned.deleted
            if max(pruned.expired, pruned.deleted, pruned.freed) < PRUNE_BATCH:
                return Pruned(expired=expired, deleted=deleted)
            await asyncio.sleep(PRUNE_BREATH_S)

    def _tell(self, pruned: Pruned) -> None:
        self._extensions.emit(
            UpkeepDone(
                worker=self._worker, expired=pruned.expired, pruned=pruned.deleted
            )
        )

    async def _recover(self, claims: Sequence[Claim]) -> int:
        if not claims:
            return 0
        outcomes = [
            self._extensions.followed(claim, _outcome.lost(claim)) for claim in claims
        ]
        settled = await self._outage.outlast(lambda: self._store.finish(outcomes))
        count = 0
        for claim, outcome, answer in zip(claims, outcomes, settled, strict=True):
            if not answer.is_locked:
                self._runs.left.discard(claim.key)
            # Refused: its worker was faster, or another one recovered it.
            if not answer.accepted:
                continue
            count += 1
            for event in recovered(claim, outcome, answer):
                self._extensions.emit(event)
        return count


def _spread(pause: float) -> float:
    return pause * CHANCE.uniform(0.8, 1.2)
