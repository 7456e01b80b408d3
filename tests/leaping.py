"""
A day of a worker in seconds: a loop that leaps to its next timer while nothing happens.

The database is a real one and answers in its own time, so the loop leaps only while no
call of the store is under way.
"""

from __future__ import annotations

import asyncio
import inspect
import selectors
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from rowlock import App

if TYPE_CHECKING:
    from rowlock._store import Store

LOOK_S = 0.002


class Selector(selectors.DefaultSelector):
    """Waits no longer than there is something to wait for."""

    def __init__(self, loop: LeapingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is not None and self._loop.leaps and not self._loop.under_way:
            self._loop.ahead += timeout
            return []
        return super().select(LOOK_S if timeout is None else min(timeout, LOOK_S))


class LeapingLoop(asyncio.SelectorEventLoop):
    """Is `ahead` of the machine's clock by all the seconds that it has leapt over."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self.leaps = False
        self.under_way = 0
        super().__init__(Selector(self))

    def time(self) -> float:
        return time.monotonic() + self.ahead


class Clock:
    """The clock of whoever lives in that loop."""

    def __init__(self, loop: LeapingLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._loop.ahead)

    def monotonic(self) -> float:
        return self._loop.time()


class CountedStore:
    """A store that counts its calls, and holds the loop while one is under way."""

    def __init__(self, store: Store, loop: LeapingLoop) -> None:
        self._store = store
        self._loop = loop
        self.calls: Counter[str] = Counter()
        self.called_at: dict[str, list[float]] = {}

    def __getattr__(self, name: str) -> object:
        found = getattr(self._store, name)
        return (
            self._counted(name, found) if inspect.iscoroutinefunction(found) else found
        )

    def _counted(
        self, name: str, call: Callable[..., Awaitable[object]]
    ) -> Callable[..., Awaitable[object]]:
        async def counted(*args: Any, **options: Any) -> object:  # noqa: ANN401 - as they come
            if asyncio.get_running_loop() is not self._loop:
                return await call(*args, **options)
            self.calls[name] += 1
            self.called_at.setdefault(name, []).append(self._loop.time())
            self._loop.under_way += 1
            try:
                return await call(*args, **options)
            finally:
                self._loop.under_way -= 1

        return counted


def run(what: Callable[[LeapingLoop], Coroutine[object, object, None]]) -> None:
    """Run something in a loop that leaps."""
    loop = LeapingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(what(loop))


def counted_app(
    url: str, loop: LeapingLoop, *, poll_interval: float = 2
) -> tuple[App, CountedStore]:
    """Make an app that lives in this loop, and give what its store is asked."""
    app = App(url, clock=Clock(loop), poll_interval=poll_interval)
    store = CountedStore(app._store, loop)
    app._access.store = cast("Store", store)
    return app, store
