"""
Hearing of news: a connection of its own that listens, in the loop of who sleeps.

Notifications that were sent while nobody listened are gone, so each time it begins to
listen there may be anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable

import psycopg

from rowlock._errors import RowlockError
from rowlock.stores.postgres.sessions import Session

_log = logging.getLogger("rowlock.store")

SOONEST = 0.1  # seconds before it connects again; doubled each time
LATEST = 5.0


class Listener:
    """Listens while it runs, and connects again where the connection is lost."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Session]],
        hear: Callable[[str | None], None],
    ) -> None:
        self._connect = connect
        self._hear = hear
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to listen, unless it does; from its loop."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._serve())

    def stop(self) -> None:
        """Listen no more; from its loop."""
        if self._task is not None:
            self._task.cancel()

    async def stopped(self) -> None:
        """Stop, and wait until its connection is closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _serve(self) -> None:
        pause = SOONEST
        while True:
            try:
                session = await self._connect()
            except RowlockError as error:
                _log.debug("store.listen", extra={"rowlock": {"error": str(error)}})
            else:
                try:
                    await session.run("listen")
                    pause = SOONEST
                    self._hear(None)
                    await self._read_until_lost(session)
                except RowlockError as error:
                    _log.debug("store.listen", extra={"rowlock": {"error": str(error)}})
                finally:
                    session.drop()
            # Spread, or all that listen to a server come back in the same instant.
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spread
            pause = min(2 * pause, LATEST)

    async def _read_until_lost(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        pgconn = session.connection.pgconn
        socket = pgconn.socket
        lost = loop.create_future()

        def read() -> None:
            try:
                pgconn.consume_input()
                while (notice := pgconn.notifies()) is not None:
                    self._hear(notice.extra.decode("utf-8", "replace"))
            except psycopg.Error:
                if not lost.done():
                    lost.set_result(None)

        loop.add_reader(socket, read)
        try:
            read()  # what came while it subscribed
            await lost
        finally:
            with contextlib.suppress(OSError):
                loop.remove_reader(socket)
