"""
Claiming what there is room for, and sleeping where there is nothing.

It sleeps until a wake-up, the next due job, or the safety interval: wake-ups are hints,
and may all be lost (law 19).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from rowlock import _outcome
from rowlock._errors import OutcomeUnknown, StoreUnavailable
from rowlock._store import Demand

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from datetime import datetime

    from rowlock._job import Claim, ClaimKey
    from rowlock._store import Claimed
    from rowlock._worker.outage import Outage
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings

LARGEST_CLAIM = 500


class Fetch:
    """The fetch loop of one worker."""

    def __init__(
        self,
        settings: Settings,
        runs: Runs,
        outage: Outage,
        *,
        start: Callable[[Claim], None],
        renew: Callable[[], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._store = settings.store
        self._runs = runs
        self._outage = outage
        self._start = start
        self._renew = renew
        self._tasks = frozenset(settings.tasks)
        # When the last claims that it was told of were made, by the store's clock.
        self._told_of_at: datetime | None = None
        self._room = asyncio.Event()
        self._stopping = False
        self._sleeper: asyncio.Task[object] | None = None

    def on_room(self) -> None:
        """Hear that a handler has ended."""
        self._room.set()

    def stop(self) -> None:
        """Claim no more; `loop` returns when a claim under way has been given back."""
        self._stopping = True
        if self._sleeper is not None:
            self._sleeper.cancel()

    async def loop(self) -> None:
        """Claim until stopped."""
        with closing(self._store.wakeups()) as wakeups:
            while not self._stopping:
                self._room.clear()
                room = min(self._settings.concurrency - self._runs.live, LARGEST_CLAIM)
                if room <= 0:
                    await self._sleep(self._room.wait)
                # Not the claims themselves: while it sleeps they would be kept alive.
                elif (pause := await self._fill(room)) is not None:
                    await self._sleep(partial(wakeups.wait, pause))

    async def _fill(self, room: int) -> timedelta | None:
        """Claim and start; tell how long to sleep, None to look again at once."""
        claimed = await self._claim(room)
        if claimed is None:
            return None
        if claimed.claims:
            self._told_of_at = claimed.now
        if self._stopping:
            await self._give_back([claim.key for claim in claimed.claims])
            return None
        for claim in claimed.claims:
            self._start(claim)
        if len(claimed.claims) == room:
            return None
        if claimed.next_due is None:
            return self._settings.safety_interval
        due_in = max(claimed.next_due - claimed.now, timedelta(0))
        return min(due_in, self._settings.safety_interval)

    async def _claim(self, room: int) -> Claimed | None:
        """Claim once; None where the store is away and it is worth another look."""
        queues = self._settings.queues
        demand = Demand(
            total=room,
            tasks=self._tasks,
            queues=None if queues is None else dict.fromkeys(queues, room),
        )
        if self._outage.is_on() and not await self._is_back():
            await self._sleep(partial(asyncio.sleep, self._outage.pause()))
            return None
        try:
            return await self._store.claim(
                demand,
                worker=self._settings.worker,
                lease=self._settings.lease,
                alone=self._settings.concurrency == 1,
            )
        except OutcomeUnknown as error:
            self._outage.began(error)
            await self._give_back_unknown()
            return None
        except StoreUnavailable as error:
            self._outage.began(error)
            await self._sleep(partial(asyncio.sleep, self._outage.pause()))
            return None

    async def _is_back(self) -> bool:
        """Try whether the store answers again."""
        # The app may have been closed under its worker; its next call connects again.
        with suppress(StoreUnavailable):
            await self._store.open()
        # Before anything else, or what runs here looks lost to others. It is a write,
        # too, which a claim that finds nothing need not be.
        await self._renew()
        return not self._outage.is_on()

    async def _sleep(self, until: Callable[[], Awaitable[object]]) -> None:
        """Await something that `stop` may cut short."""
        if self._stopping:
            return
        task = self._sleeper = asyncio.current_task()
        try:
            await until()
        except asyncio.CancelledError:
            if not self._stopping or task is None or task.uncancel() > 0:
                raise
        finally:
            self._sleeper = None

    async def _give_back_unknown(self) -> None:
        """
        Give back what the store says this worker holds and it doesn't know.

        Not what it was told of: a run whose outcome was dropped has had its start.
        """
        limit = len(self._runs) + LARGEST_CLAIM
        held = await self._outage.outlast(
            lambda: self._store.lost(limit, worker=self._settings.worker), writing=False
        )
        told_of_at = self._told_of_at
        await self._give_back(
            [
                claim.key
                for claim in held
                if claim.key not in self._runs
                and (told_of_at is None or claim.started_at > told_of_at)
            ]
        )

    async def _give_back(self, keys: Collection[ClaimKey]) -> None:
        if not keys:
            return
        outcomes = [_outcome.released(key, unstarted=True) for key in keys]
        await self._outage.outlast(lambda: self._store.finish(outcomes))
