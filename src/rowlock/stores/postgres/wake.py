"""Who sleeps on a store: its subscription, and somebody who listens meanwhile."""

from __future__ import annotations

from datetime import timedelta

from rowlock.stores.postgres.database import Database
from rowlock.stores.postgres.polling import Polling


class PostgresWakeups:
    """One sleeper's subscription; a `Wakeups`."""

    def __init__(self, database: Database, poll_interval: timedelta | None) -> None:
        self._database = database
        self._subscription = database.news.subscribe()
        self._polling = Polling(poll_interval)

    async def wait(self, timeout: timedelta) -> bool:
        """Sleep until there may be work, at most `timeout`; see `Wakeups.wait`."""
        self._database.listen()
        if self._database.is_hearing:
            return await self._subscription.wait(timeout)
        pause = self._polling.pause(self._database.finds)
        if timeout <= pause:
            return await self._subscription.wait(timeout)
        has_news = await self._subscription.wait(pause)
        if not has_news:
            self._polling.slept()
        return has_news

    def close(self) -> None:
        """End the subscription and whoever still sleeps on it."""
        self._subscription.close()
