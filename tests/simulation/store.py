"""
One worker's way to the database: a `Store` on which every call may go wrong.

A request travels, changes the database in one instant, and its answer travels back.
Both are the loop's own, so what a worker has sent arrives also when it is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from contextvars import Context
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rowlock._answers import Overview
from rowlock._clock import Clock
from rowlock._errors import ClaimLost, OutcomeUnknown, StoreUnavailable
from rowlock._job import Claim, ClaimKey, Outcome
from rowlock._store import (
    Claimed,
    Demand,
    Fate,
    Pruned,
    Renewal,
    Retention,
    Settled,
    TaskInfo,
    WorkerInfo,
)
from rowlock.stores.grace import Grace
from rowlock.stores.news import News, Subscription

from .database import Database
from .weather import Weather

# Of no process: nobody's death undoes it.
OUTSIDE = Context()


class Over(NamedTuple):
    """A lease, and when it was read; the clock may be set before the answer comes."""

    leased_until: datetime
    read_at: datetime

    def __str__(self) -> str:
        return f"{self.leased_until:%H:%M:%S.%f}"[:-3]


class Figures(NamedTuple):
    """What a worker counts at its start."""

    store: Store

    async def due(self) -> tuple[()]:
        return ()

    async def overview(self) -> Overview:
        return Overview(now=self.store.database.model.now(), workers=(), pauses=())


class Lent(NamedTuple):
    """What is done in transactions of handlers; `World` ends them."""

    store: Store

    async def complete(
        self, outcome: Outcome, connection: object, *, progress: str | None = None
    ) -> tuple[()]:
        database, by = self.store.database, self.store.worker
        assert connection is database
        assert progress is None or progress

        def complete() -> Fate:
            # A transaction ends with its process, also what it was sent last.
            is_over = self.store.has_left
            return Fate.LOST if is_over else database.complete(outcome, by=by)

        fate: Fate = await self.store._ask(complete, writing=False)
        if fate is Fate.OPEN:
            msg = "Somebody has the row."
            raise StoreUnavailable(msg)
        if fate is not Fate.RUNNING:
            raise ClaimLost(*outcome.key)
        return ()

    async def settled(self, keys: Sequence[ClaimKey]) -> list[Fate]:
        fates: list[Fate] = await self.store._ask(
            lambda: list(map(self.store.database.fate, keys)), writing=False
        )
        return fates


class Store:
    """A `rowlock._store.Store`, as far as a worker calls it."""

    url = "simulated://"
    is_new = False
    dead_letters = None

    def __init__(
        self,
        database: Database,
        weather: Weather,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        *,
        worker: str,
    ) -> None:
        self.database = database
        self.worker = worker
        self.figures = Figures(self)
        self.lent = Lent(self)
        self._weather = weather
        self._loop = loop
        self._grace = Grace(clock)
        self._news = News(clock, lambda: None)
        # What becomes of its process once it has sent a claim, which then takes long.
        self.on_claim: Callable[[float], None] | None = None
        self.has_left = False
        database.listeners.append(self._hear)

    def leave(self) -> None:
        """Hear no more; a second time does nothing."""
        self.has_left = True
        with suppress(ValueError):
            self.database.listeners.remove(self._hear)

    def _hear(self) -> None:
        after = self._weather.news()
        if after is not None:
            self._loop.call_later(after, self._news.tell, context=OUTSIDE)

    async def _ask(
        self,
        effect: Callable[[], Any],
        *,
        writing: bool = True,
        verb: str = "",
        late: float = 0.0,
    ) -> Any:  # noqa: ANN401 - as the effect answers
        fate = self._weather.fate(self.worker, writing=writing)
        answer: asyncio.Future[Any] = self._loop.create_future()

        def arrive() -> None:
            came: object = None
            if self._weather.is_away(self.worker) or fate.ends == "refused":
                came = StoreUnavailable("The database can't be reached.")
            elif fate.ends == "unheard":
                came = OutcomeUnknown("The connection broke.")
            else:
                came = effect()
                if fate.ends == "unanswered":
                    self._note_lost(verb)
                    came = OutcomeUnknown("The connection broke.")
            self._loop.call_later(fate.back, reply, came, context=OUTSIDE)

        def reply(came: object) -> None:
            if not answer.done():
                self._hand_over(answer, came, writing=writing)

        self._loop.call_later(fate.there + late, arrive, context=OUTSIDE)
        return await answer

    def _hand_over(
        self, answer: asyncio.Future[Any], came: object, *, writing: bool
    ) -> None:
        if isinstance(came, Exception):
            answer.set_exception(came)
        elif self._weather.is_away(self.worker):
            kind = OutcomeUnknown if writing else StoreUnavailable
            answer.set_exception(kind("The connection broke."))
        else:
            if writing:
                self._grace.wrote()
                self.database.history.add(self.worker, "is connected")
            answer.set_result(came)

    def _note_lost(self, verb: str) -> None:
        if verb:
            self.database.history.add(self.worker, f"won't hear what {verb} came to")

    async def open(self) -> None:
        """Connect, which `_ask` does."""

    async def register(
        self, worker: WorkerInfo, _: Sequence[TaskInfo], *, stopped: bool = False
    ) -> None:
        await self._ask(lambda: self.database.register(worker, stopped=stopped))

    async def claim(
        self, demand: Demand, *, worker: str, lease: timedelta, alone: bool = False
    ) -> Claimed:
        self._grace.learn(lease)
        late = 0.0
        if self.on_claim is not None:
            late = self._weather.posthumous_s()
            self._loop.call_soon(self.on_claim, late, context=OUTSIDE)
        claimed: Claimed = await self._ask(
            lambda: self.database.claim(
                demand, worker=worker, lease=lease, alone=alone
            ),
            verb="the claim",
            late=late,
        )
        for claim in claimed.claims:
            self.database.history.add(self.worker, "hears of", *claim.key)
        return claimed

    async def renew(
        self,
        keys: Collection[ClaimKey],
        *,
        worker: str,
        lease: timedelta,
        abandoned: bool = False,
    ) -> Renewal:
        self._grace.learn(lease)
        renewal: Renewal = await self._ask(
            lambda: self.database.renew(
                keys, worker=worker, lease=lease, abandoned=abandoned
            )
        )
        return renewal

    async def cancel_requested(
        self, keys: Collection[ClaimKey]
    ) -> Collection[ClaimKey]:
        asked: Collection[ClaimKey] = await self._ask(
            lambda: self.database.cancel_requested(keys), writing=False
        )
        return asked

    async def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        settled: Sequence[Settled] = await self._ask(
            lambda: self.database.finish(outcomes, by=self.worker), verb="the finish"
        )
        return settled

    def wakeups(self, poll_interval: timedelta | None = None) -> Subscription:
        del poll_interval  # some are lost, but nobody knows that they are
        return self._news.subscribe()

    async def lost(self, limit: int, *, worker: str | None = None) -> Sequence[Claim]:
        if worker is None and not self._grace.is_over():
            return ()

        read_at = self.database.model.now()

        def read() -> list[Claim]:
            nonlocal read_at
            read_at = self.database.model.now()
            found = self.database.lost(limit, worker=worker)
            for claim in found if worker not in (None, self.worker) else ():
                self.database.history.add(self.worker, "finds left", *claim.key)
            return found

        claims: Sequence[Claim] = await self._ask(read, writing=False)
        if worker is not None:
            return claims
        # The answer may have been on its way for long.
        if not self._grace.is_over():
            return ()
        for claim in claims:
            note = Over(claim.leased_until, read_at)
            self.database.history.add(self.worker, "finds over", *claim.key, note)
        return claims

    async def save(
        self, key: ClaimKey, *, state: str | None = None, progress: str | None = None
    ) -> bool:
        def write() -> bool:
            row = self.database.model.held(key)
            if row is None:
                return False
            row.state = state or row.state
            self.database.history.add(self.worker, "saves", *key, state or progress)
            return True

        is_held: bool = await self._ask(write)
        return is_held

    async def prune(self, retention: Retention, *, limit: int) -> Pruned:
        pruned: Pruned = await self._ask(
            lambda: self.database.prune(retention, limit, by=self.worker)
        )
        return pruned
