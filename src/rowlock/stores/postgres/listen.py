"""
Hearing of news: a thread with a connection of its own that listens.

A thread, since a handler may block the event loop: the server would wait for the reader
of a notification, and hold back the removal of dead rows meanwhile. Notifications that
were sent while nobody listened are gone, so each time it begins to listen there may be
anything. Where it can't listen, sleepers are woken once, and poll from then on.

A connection that only reads never learns that the other end is gone, so it asks in each
silence: what gives no answer is replaced.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
from psycopg.pq import ExecStatus

from rowlock._chance import CHANCE
from rowlock._errors import StoreUnavailable
from rowlock.stores.postgres.direct import HANDED_ON
from rowlock.stores.postgres.errors import Misled, Pooled

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

    from rowlock.stores.postgres.hearing import Hearing

_log = logging.getLogger("rowlock.store")

SOONEST = 0.1  # seconds before it connects again; doubled each time
LATEST = 5.0
SELDOM = 60.0  # the same where somebody has to correct something first
# Seconds of silence before it asks, and for how long it waits for the answer: together
# less than the ten in which a dead connection is to be noticed.
SILENCE = 4.0
PATIENCE = 4.0
UNUSUAL = 4  # failures in a row: a restart of the server is over by then

_SILENT = (
    "The connection that hears of new jobs was dead: the server gave no answer for"
    f" {PATIENCE:g} s. Another one is opened."
)
Connect = Callable[[], "psycopg.Connection[tuple[object, ...]]"]


class Silent(psycopg.OperationalError):
    """The other end of a connection is gone, though nobody said so."""


class Listener:
    """Listens from its start to its stop, and connects again where that is lost."""

    def __init__(
        self, connect: Connect, question: bytes, hearing: Hearing, variable: str | None
    ) -> None:
        self._connect = connect
        # Has one row where the connection listens.
        self._question = question
        self._hearing = hearing
        # What says where to connect, besides the URL.
        self._variable = variable
        self._is_over = False
        self._is_told = False
        # Closed together with the last of the two ends in use: the thread's.
        self._woken, self._wake = socket.socketpair()
        self._wake.settimeout(0)
        self.is_hearing: bool = False
        """Whether it is told of news now."""
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
        failures = 0
        pause = SOONEST
        with self._woken, self._wake:
            while not self._is_over:
                try:
                    with closing(self._connect()) as connection:
                        pause, failures = SOONEST, 0
                        self._begin()
                        self._read(connection)
                except (psycopg.Error, StoreUnavailable) as error:
                    failures += 1
                    self._tell(error, failures)
                    if isinstance(error, (Misled, Pooled)):
                        pause = SELDOM
                if self.is_hearing:
                    self.is_hearing = False
                    self._hearing.lost()
                # Spread, or all that listen to a server come back in one instant.
                self._sleep(pause * CHANCE.uniform(0.5, 1))
                pause = min(2 * pause, LATEST)

    def _begin(self) -> None:
        if self._is_told:
            _log.info("New jobs are heard of again.")
            self._is_told = False
        self.is_hearing = True
        if not self._is_over:
            self._hearing.hear(None)

    def _read(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        """Hear what comes, until the connection is lost or all is over."""
        pgconn = connection.pgconn
        heard_at, asked_at = time.monotonic(), None
        with selectors.DefaultSelector() as selector:
            selector.register(pgconn.socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._is_over:
                # What came with the answer to LISTEN is there already.
                while (notice := pgconn.notifies()) is not None:
                    self._hearing.hear(notice.extra.decode("utf-8", "replace"))
                now = time.monotonic()
                if asked_at is None and now >= heard_at + SILENCE:
                    # As it is, and not by psycopg: that waits for the answer, however
                    # long it takes, and hears of nothing else meanwhile.
                    pgconn.send_query_params(self._question, None)
                    pgconn.flush()
                    asked_at = now
                until = heard_at + SILENCE if asked_at is None else asked_at + PATIENCE
                wait = max(min(until - now, self._hearing.seconds_left()), 0.0)
                # Not before it has looked: this process may have stood still itself.
                if _is_readable(pgconn.socket, selector.select(wait)):
                    pgconn.consume_input()
                    heard_at = time.monotonic()
                    if asked_at is not None and self._is_answered(pgconn):
                        asked_at = None
                elif asked_at is not None and time.monotonic() >= until:
                    raise Silent(_SILENT)
                self._hearing.tell_due()

    def _is_answered(self, pgconn: PGconn) -> bool:
        while not pgconn.is_busy():
            if (result := pgconn.get_result()) is None:
                return True
            if result.status == ExecStatus.TUPLES_OK and result.ntuples == 0:
                raise Pooled(HANDED_ON.format(self._variable))
        return False

    def _tell(self, error: Exception, failures: int) -> None:
        _log.debug("store.listen", extra={"rowlock": {"error": str(error)}})
        if isinstance(error, (Misled, Pooled)):
            # Nothing that passes: said at once, and the cause first.
            if not self._is_told:
                _log.warning(
                    "%s Until then no new job is heard of: it is looked for every"
                    " `poll_interval`, and more and more seldom.",
                    error,
                )
        elif isinstance(error, Silent):
            _log.warning("%s", error)
        elif failures == UNUSUAL:
            _log.warning(
                "No new job is heard of, as listening fails: it is looked for every"
                " `poll_interval` instead, and more and more seldom. %s (%s)",
                "Where a pooler is in the way, ROWLOCK_DIRECT_URL leads past it."
                if self._variable is None
                else f"It listens where {self._variable} leads.",
                " ".join(str(error).split()),
            )
        else:
            return
        self._is_told = True

    def _sleep(self, seconds: float) -> None:
        if not self._is_over:
            self._woken.settimeout(seconds)
            with contextlib.suppress(TimeoutError):
                self._woken.recv(1)
            self._woken.settimeout(None)


def _is_readable(number: int, ready: list[tuple[selectors.SelectorKey, int]]) -> bool:
    return any(key.fd == number for key, _ in ready)
