"""What a test of the Postgres store starts from: a store, a job, a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg import AsyncConnection, IsolationLevel

from rowlock._clock import Clock
from rowlock._job import NewJob
from rowlock.stores.postgres import PostgresStore

LEVELS = pytest.mark.parametrize("level", IsolationLevel, ids=lambda each: each.name)

Own: TypeAlias = AsyncConnection[Any]


@asynccontextmanager
async def opened(
    url: str, *, clock: Clock | None = None
) -> AsyncIterator[PostgresStore]:
    """Open a store on a URL."""
    store = PostgresStore.from_url(url, clock=clock)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def job(**fields: Any) -> NewJob:  # noqa: ANN401 - any field of a job
    """Make a job, unless told otherwise of `mail` in `default`."""
    return NewJob(**({"task": "mail", "queue": "default", "payload": "{}"} | fields))


@asynccontextmanager
async def connected(
    url: str, level: IsolationLevel = IsolationLevel.READ_COMMITTED
) -> AsyncIterator[Own]:
    """Connect as a handler does; what isn't committed at the end is rolled back."""
    own = await AsyncConnection.connect(url)
    await own.set_isolation_level(level)
    yield own
    await own.close()


def somebody_waits(url: str) -> bool:
    """Tell whether anybody of this database waits for a lock."""
    with psycopg.connect(url, autocommit=True) as onlooker:
        found = onlooker.execute(
            "SELECT FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchall()
    return found != []
