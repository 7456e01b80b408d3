"""Who sleeps on a store: its subscription, and somebody who listens meanwhile."""

from __future__ import annotations

from datetime import timedelta

from rowlock.stores.postgres.database import Database


class PostgresWakeups:
    """One sleeper's subscription; a `Wakeups`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._subscription = database.news.subscribe()

    async def wait(self, timeout: timedelta) -> bool:
        """Sleep until there may be work, at most `timeout`; see `Wakeups.wait`."""
        self._database.listen()
        return await self._subscription.wait(timeout)

    def close(self) -> None:
        """End the subscription and whoever still sleeps on it."""
        self._subscription.close()
