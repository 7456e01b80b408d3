"""
Claiming what there is room for, and sleeping where there is nothing.

It sleeps until a wake-up, the next due job, or the safety interval: wake-ups are hints,
and may all be lost (law 19). While a suspect runs, nothing else is claimed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from rowlock._chance import CHANCE
from rowlock._errors import OutcomeUnknown, StoreUnavailable
from rowlock._events.worker import WorkerGivesWay
from rowlock._store import Demand
from rowlock._worker.room import Room
from rowlock._worker.suspects import Suspects

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from datetime import datetime

    from rowlock._job import Claim, ClaimKey
    from rowlock._store import Claimed, Wakeups
    from rowlock._worker.buffer import Buffer
    from rowlock._worker.outage import Outage
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings

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
        buffer: Buffer,
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
        self._buffer = buffer
        self._room = Room(settings, runs, buffer)
        self._is_starting = False
        self._start = start
        self._renew = renew
        self._flush = flush
        self._show = show
        self._tasks = frozenset(settings.tasks)
        self._suspects = Suspects(settings.safety_interval)
        self._suspect: ClaimKey | None = None
        # Whether other workers woke in the same moment, as they do for news.
        self._is_stirred = True
        self._has_room = asyncio.Event()
        # Queues that may have had more for the last claim than their limits allowed.
        self._bounded: frozenset[str] = frozenset()
        # Whether one of them has more room than the claim under way has asked for.
        self._is_worth_another = False
        self._stopping = False
        self._sleeper: asyncio.Task[object] | None = None
        self._waiting: asyncio.Timeout | None = None
        self._turns_by = math.inf
        self.gives_way = False
        """Whether it claims nothing, for a suspect that waits too long."""
        self._is_shown_to_give_way = False

    @property
    def late_s(self) -> float:
        """For how long its next turn is overdue, in seconds; any thread may ask."""
        return max(time.monotonic() - self._turns_by, 0.0)

    def on_room(self, queue: str) -> None:
        """Hear that a handler of a queue has ended."""
        self._room.ended()
        self._start_next()
        if self._room.left() > 0:
            self._has_room.set()
        if queue in self._bounded:
            self._is_worth_another = True
            self._look_now()
        elif self._suspects.is_waiting and self._room.is_idle:
            self._look_now()

    def stop(self) -> None:
        """Claim no more; `loop` returns when a claim under way has been given back."""
        self._stopping = True
        if self._sleeper is not None:
            self._sleeper.cancel()

    async def loop(self) -> None:
        """Claim until stopped; what wasn't started by then goes back."""
        with closing(self._store.wakeups(self._settings.poll_interval)) as wakeups:
            while not self._stopping:
                self._turns_by = time.monotonic() + LONGEST_TURN_S
                self._has_room.clear()
                self._is_worth_another = False
                if (room := self._room.left()) <= 0 or self._runs_suspect():
                    self._suspects.had_no_room()
                    self._turns_by = math.inf
                    await self._sleep(self._has_room.wait)
                # Not the claims themselves: while it sleeps they would be kept alive.
                elif (pause := await self._fill(room)) is not None:
                    self._turns_by += pause.total_seconds()
                    await self._sleep(partial(self._wait, wakeups, pause))
        self._turns_by = math.inf
        self._buffer.give_up()
        await self._give_back()

    def _start_next(self) -> None:
        """Start what waits, as long as there is a place."""
        # One that can't be started ends at once, which is heard of here.
        if self._is_starting or self._stopping:
            return
        self._is_starting = True
        try:
            while self._room.has_place and (claim := self._buffer.take()) is not None:
                self._start(claim)
        finally:
            self._is_starting = False

    async def _fill(self, room: int) -> timedelta | None:
        """Claim and start; tell how long to sleep, None to look again at once."""
        suspects = self._suspects
        has_tried = suspects.is_waiting and self._room.is_idle
        if has_tried and await self._take_suspect():
            return None
        # One that gives way still looks: somebody else may have taken it.
        gives_way = suspects.gives_way(self._settings.clock.monotonic())
        demand = self._demand(0 if gives_way else room)
        self._bounded = self._room.bounded(max(demand.total, 1))
        claimed = await self._claim(demand)
        if claimed is None:
            return None
        self._bounded &= _exhausted(demand, claimed)
        now = self._settings.clock.monotonic()
        suspects.told(claimed, now)
        self._begin(claimed)
        held = self._runs.live + len(self._buffer)
        await self._tell_giving_way(
            held if suspects.gives_way(now) else 0, claimed.chosen_since
        )
        if (
            self._stopping
            or len(claimed.claims) == room
            or self._is_worth_another
            or gives_way != suspects.gives_way(now)
            # Once: it may be locked, or somebody else's in this moment.
            or (suspects.is_waiting and self._room.is_idle and not has_tried)
        ):
            return None
        return self._full_look_in() if gives_way else self._next_look_in(claimed, now)

    def _next_look_in(self, claimed: Claimed, now: float) -> timedelta:
        """Tell when to look again, by what a claim has told."""
        waits = [self._full_look_in()]
        if claimed.next_due is not None:
            waits.append(max(claimed.next_due - claimed.now, timedelta(0)))
        if (overdue_in := self._suspects.overdue_in(now)) < math.inf:
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
        self._begin(claimed)
        await self._tell_giving_way(0)
        return True

    def _begin(self, claimed: Claimed) -> None:
        """Start what was claimed; where the worker is stopping, it will go back."""
        self._buffer.add(claimed)
        if self._stopping:
            return
        self._start_next()

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

    def _full_look_in(self) -> timedelta:
        """Tell when to look though nothing wakes it; no two workers in step."""
        interval = self._settings.safety_interval
        # Once: then all go by the same interval, each from a moment of its own.
        return interval * CHANCE.uniform(0.5, 1) if self._is_stirred else interval

    async def _wait(self, wakeups: Wakeups, pause: timedelta) -> None:
        """Sleep until there are news, or there may be room for what was passed by."""
        try:
            async with asyncio.timeout(None) as self._waiting:
                self._is_stirred = await wakeups.wait(pause)
        except TimeoutError:
            return
        finally:
            self._waiting = None

    def _look_now(self) -> None:
        """Sleep no longer where it waits for news."""
        if self._waiting is not None:
            self._waiting.reschedule(0)
            self._waiting = None

    def _demand(self, total: int, *, suspects: bool = False) -> Demand:
        return Demand(
            total=total,
            tasks=self._tasks,
            queues=self._room.of_queues(max(total, 1)),
            weights=self._settings.weights,
            suspects=suspects,
        )

    async def _claim(self, demand: Demand, *, alone: bool = False) -> Claimed | None:
        """Claim once; None where the store is away and it is worth another look."""
        if self._outage.is_on() and not await self._is_back():
            await self._sleep(partial(asyncio.sleep, self._outage.pause()))
            return None
        self._buffer.asks()
        try:
            claimed = await self._store.claim(
                demand,
                worker=self._settings.worker,
                lease=self._settings.lease,
                alone=alone or self._settings.concurrency == 1,
            )
        except OutcomeUnknown as error:
            self._outage.began(error)
            await self._look_for_unknown()
            self._buffer.hears_nothing()
            return None
        except StoreUnavailable as error:
            self._buffer.hears_nothing()
            self._outage.began(error)
            await self._sleep(partial(asyncio.sleep, self._outage.pause()))
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

    async def _look_for_unknown(self) -> None:
        """Give back what the store says this worker holds and it doesn't know."""
        # An outage is told, and bounded, as such.
        self._turns_by = math.inf
        held = await self._outage.outlast(self._buffer.refuse_unheard, writing=False)
        self._runs.left.intersection_update(claim.key for claim in held)
        await self._give_back()

    async def _give_back(self) -> None:
        self._turns_by = math.inf
        # With nothing to write it would pass for a sign that the store is back.
        if self._buffer.held():
            await self._outage.outlast(self._buffer.give_back)


def _exhausted(demand: Demand, claimed: Claimed) -> frozenset[str]:
    """Name the queues that gave all that was demanded of them, and may have more."""
    given = Counter(claim.queue for claim in claimed.claims)
    asked = (demand.queues or {}).items()
    return frozenset(queue for queue, most in asked if given[queue] >= most)
