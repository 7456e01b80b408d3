"""A database of a test's own, and an app that lives on it until the test has ended."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from rowlock import stores
from rowlock._access import Access
from rowlock._clock import Clock, SystemClock
from rowlock._errors import ConfigError
from rowlock._sync import Portal, refuse_with_on_a_loop
from rowlock.testing._dropped import refuse_dropped

if TYPE_CHECKING:
    from types import TracebackType

    from rowlock._app import App

_JOINING_S = 5.0
_IN_MEMORY = ("sqlite://", "sqlite:///:memory:")


@contextmanager
def fresh_database(url: str = "sqlite://") -> Iterator[str]:
    """
    Give the URL of a database of the test's own, without jobs, and clean up after it.

    `sqlite://` is one in memory. Of a Postgres URL it is a new schema in that database,
    `rowlock_test_` and a random name, migrated, and dropped at the end.

    Raises:
        ConfigError: a file of SQLite's, or a schema, is named: what is in it might be
            anybody's.

        >>> with fresh_database("sqlite://") as url:
        ...     url
        'sqlite://'
    """
    if url.startswith("sqlite:"):
        if url not in _IN_MEMORY:
            msg = (
                f"fresh_database() cleans up after a test, and {url!r} may be"
                " somebody's file: say sqlite://, or hand isolated() one in tmp_path."
            )
            raise ConfigError(msg)
        yield url
        return
    fresh = _with_schema(url, f"rowlock_test_{secrets.token_hex(6)}")
    portal = Portal()
    try:
        # Not the app's store: whoever migrates is known to nobody else.
        store = stores.connect(fresh)
        try:
            portal.wait(store.migrate())
            yield fresh
        finally:
            portal.wait(_drop(fresh))
    finally:
        _end(portal)


def isolated(
    app: App, url: str = "sqlite://", *, clock: Clock | None = None
) -> Isolation:
    """
    Put an app on another database for the length of `with`, or of `async with`.

    It works for an app that your modules have imported already: its tasks enqueue
    there, too. `clock` is the machine's own unless said. At the end everything is put
    back: the store it had, its clock, and its tasks, listeners, arounds, followers and
    rules of replay as they were; connections and threads of the test are closed. A
    database in memory is gone when the app is closed; any other knows the app's tasks
    from the start, so that SQL may enqueue them.

    Raises:
        AssertionError: a call of this module was dropped without `await` meanwhile.

        >>> from rowlock import App
        >>> app = App("sqlite:///shop.db")
        >>> @app.task
        ... def greet(name: str) -> None: ...
        >>> with isolated(app):
        ...     print(app.url, greet.enqueue_sync("Ada"))
        sqlite:///:memory: 1
    """
    return Isolation(app, url, clock or SystemClock())


class Isolation:
    """An app that is put on another database, for `with` and `async with`."""

    def __init__(self, app: App, url: str, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._is_in_memory = url in _IN_MEMORY
        self._store = stores.connect(url, clock=clock)

    def __enter__(self) -> App:
        refuse_with_on_a_loop("isolated")
        self._reach()
        try:
            self._access.portal.wait(self._tell())
        except BaseException:
            _end(self._access.portal)
            raise
        return self._begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()
        try:
            self._access.portal.wait(self._access.close())
        finally:
            _end(self._access.portal)
        refuse_dropped(error)

    async def __aenter__(self) -> App:
        self._reach()
        await self._tell()
        return self._begin()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()
        try:
            await self._access.close()
        finally:
            _end(self._access.portal)
        refuse_dropped(error)

    def _reach(self) -> None:
        self._tasks = dict(self._app.tasks)
        self._access = Access(
            self._store, self._clock, self._tasks, self._app.max_payload
        )

    async def _tell(self) -> None:
        # Not a second after the first call: a test's SQL may be the first to enqueue.
        if not self._is_in_memory:
            await self._access.store.open()
            await self._access.register.tell()

    def _begin(self) -> App:
        app = self._app
        self._before = dict(vars(app))
        app._access = self._access
        app._inline = None
        app.tasks = self._tasks
        app._replay_rules = dict(app._replay_rules)
        app._extensions = app._extensions.copy()
        return app

    def _restore(self) -> None:
        vars(self._app).update(self._before)


def _with_schema(url: str, schema: str) -> str:
    parts = urlsplit(url)
    if "schema=" in parts.query:
        msg = (
            "fresh_database() makes a schema of its own: leave ?schema= out of the URL."
        )
        raise ConfigError(msg)
    query = f"{parts.query}&schema={schema}" if parts.query else f"schema={schema}"
    return urlunsplit(parts._replace(query=query))


async def _drop(url: str) -> None:
    from rowlock.stores.postgres import PostgresStore  # noqa: PLC0415 - its driver

    await PostgresStore.from_url(url).drop()


def _end(portal: Portal) -> None:
    if (thread := portal.close()) is not None:
        thread.join(_JOINING_S)
