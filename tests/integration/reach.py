"""A database that a test puts out of the reach of everybody, on either store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from rowlock.stores import connect
from tests.cluster.server import Cluster
from tests.conformance.stores import in_a_file, sqlite_hold_writes


class Reach(Protocol):
    """A database, by its URL, that is in reach until it is `lost`."""

    url: str

    async def lose(self) -> None:
        """Put it out of reach."""

    async def find(self) -> None:
        """Have it back."""


class OfServer:
    """A Postgres that is stopped, and started again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.url = cluster.url

    async def lose(self) -> None:
        """Stop it: connections break, and others are refused."""
        await asyncio.to_thread(self._cluster.stop)

    async def find(self) -> None:
        """Start it on the port it has had."""
        await asyncio.to_thread(self._cluster.start)


class OfFile:
    """An SQLite file whose write lock another process, this one, takes and keeps."""

    def __init__(self, url: str, held: ExitStack) -> None:
        self.url = url
        self._held = held

    async def lose(self) -> None:
        """Take the lock."""
        self._held.enter_context(sqlite_hold_writes(self.url))

    async def find(self) -> None:
        """Let it go."""
        self._held.close()


@asynccontextmanager
async def of_server(cluster: Cluster) -> AsyncIterator[Reach]:
    """Have a server with the schema on it."""
    store = connect(cluster.url)
    await store.migrate()
    await store.close()
    yield OfServer(cluster)


@asynccontextmanager
async def of_file(folder: Path) -> AsyncIterator[Reach]:
    """Have a file with the schema in it."""
    with in_a_file(folder) as url, ExitStack() as held:
        store = connect(url)
        await store.open()
        await store.close()
        yield OfFile(url, held)
