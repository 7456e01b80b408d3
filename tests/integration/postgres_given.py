"""What a test of the Postgres store starts from: a store, a job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rowlock._clock import Clock
from rowlock._job import NewJob
from rowlock.stores.postgres import PostgresStore


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
