"""
Extending leases, in the thread that no handler can starve.

It reads a copy of what is held; what the store calls lost is judged on the worker's
loop, against what has ended meanwhile, before anybody is told. A claim whose row its
handler has in a transaction needs no lease, and is left alone until that has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rowlock._errors import StoreError
from rowlock._store import Fate

if TYPE_CHECKING:
    from rowlock._job import ClaimKey
    from rowlock._store import Renewal
    from rowlock._worker.buffer import Buffer
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
        buffer: Buffer,
        watch: Watch,
        *,
        on_renewal: Callable[[Renewal], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._settings = settings
        self._runs = runs
        self._buffer = buffer
        self._watch = watch
        self._on_renewal = on_renewal
        self._on_error = on_error
        self._one_at_a_time = asyncio.Lock()
        self._abandoning = False
        self._pause_s = settings.lease_s * SHARE_OF_LEASE
        self._soon_s = settings.soon_s
        self._due_at = 0.0
        self._open: frozenset[ClaimKey] = frozenset()

    async def now(self) -> None:
        """Renew at once, and wait until it is tried."""
        await self._watch.now(self._turn_now)

    def abandon(self, within_s: float) -> None:
        """Mark what is held as abandoned, from any thread; wait so long at most."""
        self._abandoning = True
        # It hasn't started, or has ended, or hangs.
        with contextlib.suppress(RuntimeError, TimeoutError):
            self._watch.soon(self._turn_now).result(within_s)

    async def turn(self) -> float:
        """Renew, if it is time; tell how long to wait before the next look."""
        async with self._one_at_a_time:
            try:
                await self._look()
                left = self._due_at - time.monotonic()
                if self._open and left > 0:
                    return min(left, self._soon_s)
                await self._renew()
            except StoreError as error:
                self._watch.tell(self._on_error, error)
                return self._soon_s
            return self._soon_s if self._open else self._pause_s

    async def _turn_now(self) -> float:
        """Renew once, whether or not it is time."""
        async with self._one_at_a_time:
            try:
                await self._look()
                await self._renew()
            except StoreError as error:
                self._watch.tell(self._on_error, error)
            return self._soon_s

    async def _look(self) -> None:
        """See which rows handlers have in transactions; it is time for what is free."""
        keys = [run.key for run in self._runs if run.is_lent]
        fates = await self._settings.store.lent.settled(keys) if keys else ()
        # One that has succeeded has no lease either, and is for its end to tell.
        still = frozenset(
            key
            for key, fate in zip(keys, fates, strict=True)
            if fate in (Fate.OPEN, Fate.SUCCEEDED)
        )
        if self._open - still:
            self._due_at = 0.0  # until a renewal works
        self._open = still

    async def _renew(self) -> None:
        now, lease_s = time.monotonic(), self._settings.lease_s
        abandoning = self._abandoning
        keys = [
            run.key
            for run in self._runs
            if (abandoning or run.is_renewed(now, lease_s))
            and run.key not in self._open
        ]
        if abandoning:
            keys.extend(claim.key for claim in self._buffer.held())
        renewal = await self._settings.store.renew(
            keys,
            worker=self._settings.worker,
            lease=self._settings.lease,
            abandoned=abandoning,
        )
        self._due_at = now + self._pause_s
        self._on_renewal(renewal)
