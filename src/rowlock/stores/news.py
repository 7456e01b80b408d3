"""
Who sleeps on a store, and how they are told of news.

News are told from any thread and slept on in any event loop. A subscription remembers
news from between two waits, so that none is lost while its owner works.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from rowlock._clock import Clock


class News:
    """The subscriptions of one store in one process."""

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._subscriptions: set[Subscription] = set()
        self._changed = changed
        # A clock of a test that was moved may have made jobs due.
        self._listen = getattr(clock, "listen", None)
        self._unlisten: Callable[[], None] | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether anybody is subscribed."""
        return bool(self._subscriptions)

    def subscribe(self) -> Subscription:
        """Begin a subscription; news from now on count."""
        subscription = Subscription(self)
        with self._lock:
            self._subscriptions.add(subscription)
            is_first = len(self._subscriptions) == 1
            if is_first and self._listen is not None:
                self._unlisten = self._listen(self.tell)
        if is_first:
            self._changed()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; a second time does nothing."""
        with self._lock:
            if subscription not in self._subscriptions:
                return
            self._subscriptions.remove(subscription)
            is_last = not self._subscriptions
            if is_last and self._unlisten is not None:
                self._unlisten()
                self._unlisten = None
        if is_last:
            self._changed()

    def tell(self) -> None:
        """Wake whoever sleeps; whoever doesn't will not fall asleep."""
        with self._lock:
            subscriptions = tuple(self._subscriptions)
        for subscription in subscriptions:
            subscription.tell()


class Subscription:
    """One sleeper's subscription; a `Wakeups`."""

    def __init__(self, news: News) -> None:
        self._source = news
        self._lock = threading.Lock()
        self._has_news = False
        self._sleepers: set[asyncio.Future[None]] = set()

    async def wait(self, timeout: timedelta) -> bool:
        """Sleep until there may be work, at most `timeout`; see `Wakeups.wait`."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._has_news:
                self._has_news = False
                return True
            sleeper = loop.create_future()
            self._sleepers.add(sleeper)
        alarm = loop.call_later(timeout.total_seconds(), _rouse, sleeper)
        try:
            await sleeper
        finally:
            alarm.cancel()
            with self._lock:
                self._sleepers.discard(sleeper)
        # Not in the `finally`: who is cancelled takes no news with it.
        with self._lock:
            has_news, self._has_news = self._has_news, False
        return has_news

    def close(self) -> None:
        """End the subscription and whoever still sleeps on it."""
        self._source.unsubscribe(self)
        self._rouse_all()

    def tell(self) -> None:
        """Remember news and wake the sleeper."""
        with self._lock:
            self._has_news = True
        self._rouse_all()

    def _rouse_all(self) -> None:
        with self._lock:
            sleepers, self._sleepers = self._sleepers, set()
        for sleeper in sleepers:
            # A loop that is closed has nobody left to wake.
            with contextlib.suppress(RuntimeError):
                sleeper.get_loop().call_soon_threadsafe(_rouse, sleeper)


def _rouse(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
