"""
A program that lends a connection, once for each kind: the real libraries.

What a test says is one thing for all: write an order, enqueue, commit. Whoever has to
be awaited runs on a loop of the caller's own, so that the tests are synchronous.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import aiosqlite
import asyncpg
import psycopg
import psycopg2

from rowlock import App, KeyedTask
from rowlock._job import NewJob

ORDER = "INSERT INTO orders (item) VALUES ('lamp')"


def mail_to(to: str) -> None:
    """Do what an app's task does."""


class Caller(Protocol):
    """A program with a connection of its own."""

    is_awaited: bool
    lent: Any  # what it lends

    def run(self, statement: str) -> None:
        """Run a statement of its own."""

    def commit(self) -> None:
        """Commit."""

    def rollback(self) -> None:
        """Roll back."""

    def undone(self) -> AbstractContextManager[None]:
        """Make a savepoint, and roll back to it at the end."""

    def close(self) -> None:
        """Let go of the connection."""

    def enqueue(self, task: KeyedTask[..., Any], **arguments: Any) -> int | None:
        """Enqueue a job on it."""

    def enqueue_many(self, app: App, jobs: Sequence[NewJob]) -> list[int | None]:
        """Enqueue several on it."""

    def once(self, app: App, key: str) -> bool:
        """Ask whether a key comes for the first time."""


class Sync:
    """A caller whose connection is synchronous."""

    is_awaited = False
    lent: Any

    def enqueue(self, task: KeyedTask[..., Any], **arguments: Any) -> int | None:
        return task.options(connection=self.lent).enqueue_sync(**arguments)

    def enqueue_many(self, app: App, jobs: Sequence[NewJob]) -> list[int | None]:
        return app.enqueue_many_sync(jobs, connection=self.lent)

    def once(self, app: App, key: str) -> bool:
        return app.once_sync(key, connection=self.lent)


class Awaited:
    """A caller whose connection is awaited, on a loop that runs only for that."""

    is_awaited = True
    lent: Any

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def wait(self, awaitable: Any) -> Any:
        async def run() -> Any:
            return await awaitable

        return self.loop.run_until_complete(run())

    def enqueue(self, task: KeyedTask[..., Any], **arguments: Any) -> int | None:
        call = task.options(connection=self.lent).enqueue(**arguments)
        found: int | None = self.wait(call)
        return found

    def enqueue_many(self, app: App, jobs: Sequence[NewJob]) -> list[int | None]:
        found: list[int | None] = self.wait(
            app.enqueue_many(jobs, connection=self.lent)
        )
        return found

    def once(self, app: App, key: str) -> bool:
        found: bool = self.wait(app.once(key, connection=self.lent))
        return found

    def end(self, *apps: App) -> None:
        for app in apps:
            self.wait(app.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


class Psycopg(Sync):
    def __init__(self, url: str, *, autocommit: bool) -> None:
        self.lent = psycopg.connect(url, autocommit=autocommit)

    def run(self, statement: str) -> None:
        self.lent.execute(statement)

    def commit(self) -> None:
        self.lent.commit()

    def rollback(self) -> None:
        self.lent.rollback()

    @contextmanager
    def undone(self) -> Iterator[None]:
        with self.lent.transaction(force_rollback=True):
            yield

    def close(self) -> None:
        self.lent.close()


class Psycopg2(Sync):
    def __init__(self, url: str, *, autocommit: bool) -> None:
        self.lent = psycopg2.connect(url)
        self.lent.autocommit = autocommit

    def run(self, statement: str) -> None:
        with self.lent.cursor() as cursor:
            cursor.execute(statement)

    def commit(self) -> None:
        self.lent.commit()

    def rollback(self) -> None:
        self.lent.rollback()

    @contextmanager
    def undone(self) -> Iterator[None]:
        self.run(SAVEPOINT[0])
        yield
        for statement in SAVEPOINT[1:]:
            self.run(statement)

    def close(self) -> None:
        self.lent.close()


class AsyncPsycopg(Awaited):
    def __init__(self, url: str, *, autocommit: bool) -> None:
        super().__init__()
        self.lent = self.wait(
            psycopg.AsyncConnection.connect(url, autocommit=autocommit)
        )

    def run(self, statement: str) -> None:
        self.wait(self.lent.execute(statement))

    def commit(self) -> None:
        self.wait(self.lent.commit())

    def rollback(self) -> None:
        self.wait(self.lent.rollback())

    @contextmanager
    def undone(self) -> Iterator[None]:
        inner = self.lent.transaction(force_rollback=True)
        self.wait(inner.__aenter__())
        yield
        self.wait(inner.__aexit__(None, None, None))

    def close(self) -> None:
        self.wait(self.lent.close())


class Asyncpg(Awaited):
    """In a transaction of its own, where it isn't to be in autocommit."""

    def __init__(self, url: str, *, autocommit: bool) -> None:
        super().__init__()
        self.lent = self.connect(url)
        self.transaction = None if autocommit else self.lent.transaction()
        if self.transaction is not None:
            self.wait(self.transaction.start())

    def connect(self, url: str) -> Any:
        return self.wait(asyncpg.connect(url))

    def run(self, statement: str) -> None:
        self.wait(self.lent.execute(statement))

    def commit(self) -> None:
        if self.transaction is not None:
            self.wait(self.transaction.commit())
        self._again()

    def rollback(self) -> None:
        if self.transaction is not None:
            self.wait(self.transaction.rollback())
        self._again()

    def _again(self) -> None:
        if self.transaction is not None:
            self.transaction = self.lent.transaction()
            self.wait(self.transaction.start())

    @contextmanager
    def undone(self) -> Iterator[None]:
        inner = self.lent.transaction()
        self.wait(inner.start())
        yield
        self.wait(inner.rollback())

    def close(self) -> None:
        self.wait(self.lent.close())


class PooledAsyncpg(Asyncpg):
    def connect(self, url: str) -> Any:
        # In a coroutine, since a pool belongs to the loop that makes it.
        async def connect() -> Any:
            self.pool = await asyncpg.create_pool(url, min_size=1, max_size=1)
            return await self.pool.acquire()

        return self.wait(connect())

    def close(self) -> None:
        async def close() -> None:
            try:
                await self.pool.release(self.lent)
            finally:
                await self.pool.close()

        self.wait(close())


SAVEPOINT = ("SAVEPOINT own", "ROLLBACK TO own", "RELEASE own")


class SQLite(Sync):
    def __init__(self, path: str, *, autocommit: bool) -> None:
        isolation = None if autocommit else "DEFERRED"
        self.lent = sqlite3.connect(path, isolation_level=isolation)  # type: ignore[arg-type]  # a Literal

    def run(self, statement: str) -> None:
        self.lent.execute(statement)

    def commit(self) -> None:
        self.lent.commit()

    def rollback(self) -> None:
        self.lent.rollback()

    @contextmanager
    def undone(self) -> Iterator[None]:
        self.run(SAVEPOINT[0])
        yield
        for statement in SAVEPOINT[1:]:
            self.run(statement)

    def close(self) -> None:
        self.lent.close()


class Aiosqlite(Awaited):
    def __init__(self, path: str, *, autocommit: bool) -> None:
        super().__init__()
        isolation = None if autocommit else "DEFERRED"
        self.lent = self.wait(aiosqlite.connect(path, isolation_level=isolation))

    def run(self, statement: str) -> None:
        self.wait(self.lent.execute(statement))

    def commit(self) -> None:
        self.wait(self.lent.commit())

    def rollback(self) -> None:
        self.wait(self.lent.rollback())

    undone = SQLite.undone

    def close(self) -> None:
        self.wait(self.lent.close())
