"""
What the writer's thread does between two transactions.

It tells sleepers of news, from this process and, by `PRAGMA data_version`, from others;
it sends hints; it keeps the write-ahead log short. In memory there are no others and
there is no log.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rowlock.stores.sqlite import connection as connections
from rowlock.stores.sqlite.checkpoint import Checkpoint
from rowlock.stores.sqlite.hint import Hints
from rowlock.stores.sqlite.peers import Peers
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rowlock.stores.grace import Grace
    from rowlock.stores.news import News

_log = logging.getLogger("rowlock.store")

_SOONEST = 0.025  # seconds between two looks for the commits of others
_LATEST = 0.25  # where nothing has happened for a while


class MemoryBetween:
    """The work between two transactions in memory."""

    def __init__(self, news: News, grace: Grace) -> None:
        self._news = news
        self._grace = grace

    @contextmanager
    def writing(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Begin a transaction of writing."""
        connections.begin(connection)
        yield

    def committed(self, *, news: bool) -> None:
        """Note a commit, and tell this process's sleepers."""
        self._grace.wrote()
        if news:
            self._news.tell()

    def due_in(self) -> float | None:
        """Tell in how many seconds to look around: never."""
        return None

    def look(self, connection: sqlite3.Connection) -> None:
        """Look around: there is nothing to see."""

    def hurry(self) -> None:
        """Look for the commits of others: there are none."""

    def close(self) -> None:
        """Let go of everything: there is nothing to let go of."""

    def forget(self) -> None:
        """Let go of what the parent of this process has: nothing."""


class FileBetween:
    """The work between two transactions on a file."""

    def __init__(
        self, path: str, news: News, grace: Grace, nudge: Callable[[], None]
    ) -> None:
        folder = Path(f"{path}.wake")
        self._news = news
        self._grace = grace
        self._nudge = nudge
        self._hints = Hints(folder)
        self._peers = Peers(folder)
        self._checkpoint = Checkpoint(path, folder, self._peers)
        self._has_committed = False
        self._changes = 0
        self._has_news = False
        # As if hinted, so that what others commit from the start on is seen.
        self._is_hinted = True
        self._version: int | None = None
        self._interval = _SOONEST
        self._next_at = 0.0

    @contextmanager
    def writing(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Begin a transaction of writing, and let peers see it until its end."""
        connections.begin(connection, self._peers)
        with self._peers.told():
            yield

    def committed(self, *, news: bool) -> None:
        """Note a commit, and tell this process's sleepers."""
        self._grace.wrote()
        self._has_committed = True
        if news:
            self._has_news = True
            self._news.tell()

    def lent(self) -> None:
        """Note a commit, done or to come, on a connection lent by a user."""
        self._has_news = True
        self.hurry()

    def hurry(self) -> None:
        """Look for the commits of others now, and often for a while; any thread may."""
        # Many hints for one look.
        if not self._is_hinted:
            self._is_hinted = True
            self._nudge()

    def due_in(self) -> float | None:
        """Tell in how many seconds to look around; None is never."""
        if self._has_committed or self._is_hinted:
            return 0.0
        waits = [self._checkpoint.due_in()]
        if self._news.is_wanted:
            waits.append(max(0.0, self._next_at - time.monotonic()))
        elif self._hints.is_listening:
            return 0.0
        return min((wait for wait in waits if wait is not None), default=None)

    def look(self, connection: sqlite3.Connection) -> None:
        """Look around: hints first, since others wait for them."""
        # A commit without a change writes nothing to the log.
        has_written = self._has_committed and connection.total_changes != self._changes
        self._changes = connection.total_changes
        self._has_committed = False
        if self._has_news:
            self._has_news = False
            self._hints.send()
        if self._news.is_wanted:
            self._hints.listen(self.hurry)
        else:
            self._hints.unlisten()
        try:
            self._look_for_commits(connection)
            if has_written:
                self._checkpoint.after_commit(connection)
            elif self._checkpoint.due_in() == 0:
                self._checkpoint.go_on(connection)
        except sqlite3.Error:
            # Locked by others, or a full disk: whoever writes next is told.
            _log.debug("The database could not be looked at.", exc_info=True)

    def close(self) -> None:
        """Let go of the sockets and of the checkpoint's turn."""
        self._hints.close()
        self._checkpoint.close()
        self._peers.close()

    def forget(self) -> None:
        """Let go, in a forked child, of what its parent goes on with."""
        self._hints.forget()
        self._checkpoint.forget()
        self._peers.close()

    def _look_for_commits(self, connection: sqlite3.Connection) -> None:
        if self._is_hinted:
            self._is_hinted = False
            self._interval = _SOONEST
        elif not self._news.is_wanted or time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + self._interval
        self._interval = min(2 * self._interval, _LATEST)
        (version,) = connection.execute(SQL["data_version"]).fetchone()
        if version != self._version:
            self._version = version
            self._interval = _SOONEST
            self._news.tell()
