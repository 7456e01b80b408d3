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
from datetime import timedelta
from typing import Any, NamedTuple

from rowlock._answers import Overview
from rowlock._clock import Clock
from rowlock._errors import OutcomeUnknown, StoreUnavailable
from rowlock._job import Claim, ClaimKey, Outcome
from rowlock._store import (
    Claimed,
    Demand,
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


class Figures(NamedTuple):
    """What a worker counts at its start."""

    store: Store

    async def due(self) -> tuple[()]:
        return ()

    async def overview(self) -> Overview:
        return Overview(now=self.store.database.model.now(), workers=(), pauses=())


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
        self._weather = weather
        self._loop = loop
        self._grace = Grace(clock)
        self._news = News(clock, lambda: None)
        database.listeners.append(self._hear)

    def leave(self) -> None:
        """Hear no more; a second time does nothing."""
        with suppress(ValueError):
            self.database.listeners.remove(self._hear)

    def _hear(self) -> None:
        after = self._weather.news()
        if after is not None:
            self._loop.call_later(after, self._news.tell, context=OUTSIDE)

    async def _ask(
        self, effect: Callable[[], Any], *, writing: bool = True, verb: str = ""
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
            if answer.done():
                return
            if isinstance(came, Exception):
                answer.set_exception(came)
                return
            if self._weather.is_away(self.worker):
                kind = OutcomeUnknown if writing else StoreUnavailable
                answer.set_exception(kind("The connection broke."))
                return
            if writing:
                self._grace.wrote()
                self.database.history.add(self.worker, "is connected")
            answer.set_result(came)

        self._loop.call_later(fate.there, arrive, context=OUTSIDE)
        return await answer

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
        claimed: Claimed = await self._ask(
            lambda: self.database.claim(
                demand, worker=worker, lease=lease, alone=alone
            ),
            verb="the claim",
        )
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

    def wakeups(self) -> Subscription:
        return self._news.subscribe()

    async def lost(self, limit: int, *, worker: str | None = None) -> Sequence[Claim]:
        if worker is None and not self._grace.is_over():
            return ()

        def read() -> list[Claim]:
            return self.database.lost(limit, worker=worker)

        claims: Sequence[Claim] = await self._ask(read, writing=False)
        if worker is not None:
            return claims
        # The answer may have been on its way for long.
        if not self._grace.is_over():
            return ()
        for claim in claims:
            note = claim.leased_until
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

    async def prune(self, _: Retention, *, limit: int) -> Pruned:
        pruned: Pruned = await self._ask(
            lambda: self.database.prune(limit, by=self.worker)
        )
        return pruned
