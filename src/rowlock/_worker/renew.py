"""
Extending leases, in the thread that no handler can starve.

It reads a copy of what is held; what the store calls lost is judged on the worker's
loop, against what has ended meanwhile, before anybody is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rowlock._errors import StoreError

if TYPE_CHECKING:
    from rowlock._store import Renewal
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings
    from rowlock._worker.watch import Watch

# A little more often than every third of the lease: at exactly a third, a write that
# is late by a breath would count as a gap in law 17.
SHARE_OF_LEASE = 0.3


class Renew:
    """The renewal of one worker's claims."""

    def __init__(
        self,
        settings: Settings,
        runs: Runs,
        watch: Watch,
        *,
        on_renewal: Callable[[Renewal], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._settings = settings
        self._runs = runs
        self._watch = watch
        self._on_renewal = on_renewal
        self._on_error = on_error
        self._one_at_a_time = asyncio.Lock()
        self._abandoning = False

    async def now(self) -> None:
        """Renew at once, and wait until it is tried."""
        await self._watch.now(self.turn)

    def abandon(self, within_s: float) -> None:
        """Mark what is held as abandoned, from any thread; wait so long at most."""
        self._abandoning = True
        # It hasn't started, or has ended, or hangs.
        with contextlib.suppress(RuntimeError, TimeoutError):
            self._watch.soon(self.turn).result(within_s)

    async def turn(self) -> float:
        """Renew once; tell how long to wait before the next time."""
        async with self._one_at_a_time:
            return await self._renew()

    async def _renew(self) -> float:
        now, lease_s = time.monotonic(), self._settings.lease_s
        abandoning = self._abandoning
        keys = [
            run.key for run in self._runs if abandoning or run.is_renewed(now, lease_s)
        ]
        # Often enough that one answer before the lease's end saves the claims.
        soon = min(lease_s / 20, 1.0)
        try:
            renewal = await self._settings.store.renew(
                keys,
                worker=self._settings.worker,
                lease=self._settings.lease,
                abandoned=abandoning,
            )
        except StoreError as error:
            self._watch.tell(self._on_error, error)
            return soon
        self._on_renewal(renewal)
        return lease_s * SHARE_OF_LEASE
