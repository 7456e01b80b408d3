"""
Claiming what there is room for, and sleeping where there is nothing.

It sleeps until a wake-up, the next due job, or the safety interval: wake-ups are hints,
and may all be lost (law 19). While a suspect runs, nothing else is claimed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from rowlock import _outcome
from rowlock._errors import OutcomeUnknown, StoreUnavailable
from rowlock._events.worker import WorkerGivesWay
from rowlock._store import Demand
from rowlock._worker.suspects import Suspects

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from datetime import datetime

    from rowlock._job import Claim, ClaimKey
    from rowlock._store import Claimed, Wakeups
    from rowlock._worker.outage import Outage
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings

LARGEST_CLAIM = 500

# A claim, or the look whether a store is back, may take its time; this long it mustn't.
LONGEST_TURN_S = 60.0

# A suspect may kill the process, and outcomes of what ended before would go with it.
# They are awaited; one that waits for a user's transaction, for no longer than this.
LONGEST_FLUSH_S = 1.0


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
        flush: Callable[[], Awaitable[None]],
        show: Callable[..., Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._store = settings.store
        self._runs = runs
        self._outage = outage
        self._start = start
        self._renew = renew
        self._flush = flush
        self._show = show
        self._tasks = frozenset(settings.tasks)
        # When the last claims that it was told of were made, by the store's clock.
        self._told_of_at: datetime | None = None
        self._suspects = Suspects(settings.safety_interval)
        self._clock = settings.clock
        self._suspect: ClaimKey | None = None
        self._room = asyncio.Event()
        self._stopping = False
        self._sleeper: asyncio.Task[object] | None = None
        self._until_empty: asyncio.Timeout | None = None
        self._turns_by = math.inf
        self.gives_way = False
        """Whether it claims nothing, for a suspect that waits too long."""
        self._is_shown_to_give_way = False

    @property
    def late_s(self) -> float:
        """For how long its next turn is overdue, in seconds; any thread may ask."""
        return max(time.monotonic() - self._turns_by, 0.0)

    def on_room(self) -> None:
        """Hear that a handler has ended."""
        self._room.set()
        if not self._runs.live and self._until_empty is not None:
            self._until_empty.reschedule(0)
            self._until_empty = None

    def stop(self) -> None:
        """Claim no more; `loop` returns when a claim under way has been given back."""
        self._stopping = True
        if self._sleeper is not None:
            self._sleeper.cancel()

    async def loop(self) -> None:
        """Claim until stopped."""
        with closing(self._store.wakeups()) as wakeups:
            while not self._stopping:
                self._turns_by = time.monotonic() + LONGEST_TURN_S
                self._room.clear()
                room = min(self._settings.concurrency - self._runs.held, LARGEST_CLAIM)
                if room <= 0 or self._runs_suspect():
                    self._suspects.had_no_room()
                    self._turns_by = math.inf
                    await self._sleep(self._room.wait)
                # Not the claims themselves: while it sleeps they would be kept alive.
                elif (pause := await self._fill(room)) is not None:
                    self._turns_by += pause.total_seconds()
                    await self._sleep(partial(self._wait, wakeups, pause))
        self._turns_by = math.inf

    async def _fill(self, room: int) -> timedelta | None:
        """Claim and start; tell how long to sleep, None to look again at once."""
        suspects = self._suspects
        has_tried = suspects.is_waiting and not self._runs.live
        if has_tried and await self._take_suspect():
            return None
        # One that gives way still looks: somebody else may have taken it.
        gives_way = suspects.gives_way(self._clock.monotonic())
        claimed = await self._claim(self._demand(0 if gives_way else room))
        if claimed is None:
            return None
        now = self._clock.monotonic()
        suspects.told(claimed, now)
        await self._begin(claimed)
        waits_for = self._runs.live if suspects.gives_way(now) else 0
        await self._tell_giving_way(waits_for, claimed.chosen_since)
        if (
            self._stopping
            or len(claimed.claims) == room
            or gives_way != suspects.gives_way(now)
            # Once: it may be locked, or somebody else's in this moment.
            or (suspects.is_waiting and not self._runs.live and not has_tried)
        ):
            return None
        waits = [self._settings.safety_interval]
        if gives_way:
            return waits[0]
        if claimed.next_due is not None:
            waits.append(max(claimed.next_due - claimed.now, timedelta(0)))
        if (overdue_in := suspects.overdue_in(now)) < math.inf:
            waits.append(timedelta(seconds=overdue_in))
        return min(waits)

    async def _take_suspect(self) -> bool:
        """Claim a suspect and run it alone; False where there is none to be had."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_FLUSH_S):
                await self._flush()
        self._suspects.tried()
        claimed = await self._claim(self._demand(1, suspects=True), alone=True)
        if claimed is None or not claimed.claims:
            return False
        self._suspect = claimed.claims[0].key
        await self._begin(claimed)
        await self._tell_giving_way(0)
        return True

    async def _begin(self, claimed: Claimed) -> None:
        """Start what was claimed; give it back where the worker is stopping."""
        if claimed.claims:
            self._told_of_at = claimed.now
        if self._stopping:
            await self._give_back([claim.key for claim in claimed.claims])
            return
        for claim in claimed.claims:
            self._start(claim)

    async def _tell_giving_way(
        self, running: int, since: datetime | None = None
    ) -> None:
        """Let operators know that it waits for what runs, to run a suspect; 0: no."""
        began = running > 0 and not self.gives_way
        self.gives_way = running > 0
        if began:
            self._settings.extensions.emit(
                WorkerGivesWay(
                    worker=self._settings.worker, running=running, suspect_since=since
                )
            )
        if self._is_shown_to_give_way != self.gives_way:
            # An outage is for the next claim to tell; then this is tried again.
            with suppress(StoreUnavailable, OutcomeUnknown):
                await self._show(gives_way=self.gives_way)
                self._is_shown_to_give_way = self.gives_way

    def _runs_suspect(self) -> bool:
        run = None if self._suspect is None else self._runs.get(self._suspect)
        return run is not None and run.ended_at is None

    async def _wait(self, wakeups: Wakeups, pause: timedelta) -> None:
        """Sleep until there are news, or nothing runs while a suspect waits for it."""
        if not (self._suspects.is_waiting and self._runs.live):
            await wakeups.wait(pause)
            return
        try:
            async with asyncio.timeout(None) as self._until_empty:
                await wakeups.wait(pause)
        except TimeoutError:
            return
        finally:
            self._until_empty = None

    def _demand(self, total: int, *, suspects: bool = False) -> Demand:
        queues = self._settings.queues
        most = max(total, 1)
        return Demand(
            total=total,
            tasks=self._tasks,
            queues=None if queues is None else dict.fromkeys(queues, most),
            suspects=suspects,
        )

    async def _claim(self, demand: Demand, *, alone: bool = False) -> Claimed | None:
        """Claim once; None where the store is away and it is worth another look."""
        if self._outage.is_on() and not await self._is_back():
            await self._sleep(partial(asyncio.sleep, self._outage.pause()))
            return None
        asked_at = time.monotonic()
        try:
            claimed = await self._store.claim(
                demand,
                worker=self._settings.worker,
                lease=self._settings.lease,
                alone=alone or self._settings.concurrency == 1,
            )
        except OutcomeUnknown as error:
            self._outage.began(error)
            await self._give_back_unknown()
            return None
        except StoreUnavailable as error:
            self._outage.began(error)
            await self._sleep(partial(asyncio.sleep, self._outage.pause()))
            return None
        if claimed.claims and time.monotonic() >= asked_at + self._settings.lease_s:
            # The leases may be over, and the jobs somebody else's.
            await self._give_back([claim.key for claim in claimed.claims])
            return None
        return claimed

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
        # An outage is told, and bounded, as such.
        self._turns_by = math.inf
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
        self._turns_by = math.inf
        outcomes = [_outcome.released(key, unstarted=True) for key in keys]
        await self._outage.outlast(lambda: self._store.finish(outcomes))
