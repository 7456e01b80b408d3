"""
Hearing of news: a thread with a connection of its own that listens.

A thread, since a handler may block the event loop: the server would wait for the reader
of a notification, and hold back the removal of dead rows meanwhile. Notifications that
were sent while nobody listened are gone, so each time it begins to listen there may be
anything. And where it can't listen, sleepers are woken with each try, to look
themselves.
"""

from __future__ import annotations

import contextlib
import logging
import random
import selectors
import socket
import threading
from collections.abc import Callable

import psycopg

from rowlock._errors import StoreUnavailable
from rowlock.stores.postgres.errors import Misled

_log = logging.getLogger("rowlock.store")

SOONEST = 0.1  # seconds before it connects again; doubled each time
LATEST = 5.0
UNUSUAL = 4  # failures in a row: a restart of the server is over by then

Connect = Callable[[], "psycopg.Connection[tuple[object, ...]]"]


class Listener:
    """Listens from its start to its stop, and connects again where that is lost."""

    def __init__(
        self,
        connect: Connect,
        hear: Callable[[str | None], None],
        wake: Callable[[], None],
        variable: str | None,
    ) -> None:
        self._connect = connect
        # What says where to connect, besides the URL.
        self._variable = variable
        self._hear = hear
        self._wake_sleepers = wake
        self._is_over = False
        # Closed together with the last of the two ends in use: the thread's.
        self._woken, self._wake = socket.socketpair()
        self._wake.settimeout(0)
        self._thread = threading.Thread(
            target=self._serve, name="rowlock-listen", daemon=True
        )
        self._thread.start()

    @property
    def is_live(self) -> bool:
        """Whether it listens, or tries to."""
        return not self._is_over and self._thread.is_alive()

    def stop(self) -> None:
        """Listen no more; from any thread."""
        self._is_over = True
        with contextlib.suppress(OSError):
            self._wake.send(b"\0")

    def join(self, timeout: float) -> None:
        """Wait until it has closed its connection."""
        self._thread.join(timeout)

    def _serve(self) -> None:
        pause = SOONEST
        failures = 0
        with self._woken, self._wake:
            while not self._is_over:
                try:
                    with self._connect() as connection:
                        pause = SOONEST
                        failures = 0
                        if not self._is_over:
                            self._hear(None)
                        self._read(connection)
                except (psycopg.Error, StoreUnavailable) as error:
                    failures += 1
                    _tell(error, failures, self._variable)
                    self._wake_sleepers()
                # Spread, or all that listen to a server come back in one instant.
                self._sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spread
                pause = min(2 * pause, LATEST)

    def _read(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        """Hear what comes, until the connection is lost or all is over."""
        pgconn = connection.pgconn
        with selectors.DefaultSelector() as selector:
            selector.register(pgconn.socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._is_over:
                # What came with the answer to LISTEN is there already.
                while (notice := pgconn.notifies()) is not None:
                    self._hear(notice.extra.decode("utf-8", "replace"))
                selector.select()
                pgconn.consume_input()

    def _sleep(self, seconds: float) -> None:
        if not self._is_over:
            self._woken.settimeout(seconds)
            with contextlib.suppress(TimeoutError):
                self._woken.recv(1)
            self._woken.settimeout(None)


def _tell(error: Exception, failures: int, variable: str | None) -> None:
    _log.debug("store.listen", extra={"rowlock": {"error": str(error)}})
    if isinstance(error, Misled):
        # Nothing that passes: said at once, and the cause first.
        if failures == 1:
            _log.warning(
                "%s Until then no new job is heard of: it is looked for every %g s.",
                error,
                LATEST,
            )
    elif failures == UNUSUAL:
        _log.warning(
            "No new job is heard of, as listening fails: it is looked for every %g s"
            " instead. %s (%s)",
            LATEST,
            "Where a pooler is in the way, ROWLOCK_DIRECT_URL leads past it."
            if variable is None
            else f"It listens where {variable} leads.",
            " ".join(str(error).split()),
        )
