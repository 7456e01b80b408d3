"""
Keeping the write-ahead log short, one process at a time.

SQLite before 3.51.3 can damage a file where a second checkpoint begins right after a
complete one, while another connection begins the log anew (sqlite.org/wal.html, "the
WAL-reset bug"). So connections here don't checkpoint by themselves. A process takes a
lock on a file beside the database, commits, and only then copies: its own commit isn't
copied yet, and nobody else copies, so the log can't have been copied whole. It keeps
the lock until it has copied everything.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rowlock.stores.sqlite.connection import WAL_LIMIT
from rowlock.stores.sqlite.statements import SQL

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: connections checkpoint by themselves
    IS_ELECTED = False
else:
    IS_ELECTED = True

if TYPE_CHECKING:
    import sqlite3

    from rowlock.stores.sqlite.peers import Peers

# Above this, readers that follow each other without a gap are waited for: while the log
# is copied whole, new ones don't need it. Nobody writes meanwhile, so the wait is short
# at first, and longer only where that wasn't enough.
_LONG = 16 * 2**20
_PATIENCE = {
    0.1: "PRAGMA busy_timeout = 100",
    0.2: "PRAGMA busy_timeout = 200",
    0.4: "PRAGMA busy_timeout = 400",
    0.8: "PRAGMA busy_timeout = 800",
}
_NO_PATIENCE = "PRAGMA busy_timeout = 0"
_REST = 4  # times as long as they were waited for, before they are again
_AS_EVER = "PRAGMA wal_autocheckpoint = 1000"

_SOONEST = 0.1  # seconds between two tries; doubled while a long reader is in the way
_LATEST = 1.0
_UNUSED = 1.0  # after which a turn goes to those who write more often


class Checkpoint:
    """The log of one database, as its writer sees it."""

    def __init__(self, path: str, folder: Path, peers: Peers) -> None:
        self._log = Path(f"{path}-wal")
        self._folder = folder
        self._peers = peers
        self._lock: int | None = None
        self._interval = _SOONEST
        self._patience = min(_PATIENCE)
        self._next_at: float | None = None
        self._has_begun = False

    def due_in(self) -> float | None:
        """Tell in how many seconds to go on though nothing is written."""
        if self._next_at is None:
            return None
        return max(0.0, self._next_at - time.monotonic())

    def after_commit(self, connection: sqlite3.Connection) -> None:
        """Copy the log where it has grown long and it is this process's turn."""
        if self._lock is None:
            if IS_ELECTED and self._size() > WAL_LIMIT:
                try:
                    self._take_turn()
                except OSError:
                    # Nowhere to wait for a turn: SQLite's own way is the lesser risk.
                    connection.execute(_AS_EVER)
        elif not self._has_begun or self.due_in() == 0:
            self._copy(connection)

    def go_on(self, connection: sqlite3.Connection) -> None:
        """Copy what was left, or give back a turn that no commit has followed."""
        if self._has_begun:
            self._copy(connection)
        else:
            self.close()

    def _copy(self, connection: sqlite3.Connection) -> None:
        """Copy what can be copied; the turn is over when that is everything."""
        self._has_begun = True
        # A slow disk or a wait for readers is not to pass for a lock of a user's.
        with self._peers.told():
            if self._size() > _LONG:
                found = self._copy_patiently(connection)
            else:
                found = connection.execute(SQL["checkpoint"]).fetchone()
                self._next_at = time.monotonic() + self._interval
                self._interval = min(2 * self._interval, _LATEST)
        _, frames, copied = found
        if frames == copied:
            self.close()

    def _copy_patiently(self, connection: sqlite3.Connection) -> tuple[int, int, int]:
        """Copy all of it, once the readers that are in the way have ended."""
        connection.execute(_PATIENCE[self._patience])
        try:
            found: tuple[int, int, int] = connection.execute(SQL["truncate"]).fetchone()
        finally:
            connection.execute(_NO_PATIENCE)
            self._next_at = time.monotonic() + _REST * self._patience
            self._patience = min(2 * self._patience, max(_PATIENCE))
        return found

    def close(self) -> None:
        """Give the turn to another process."""
        if self._lock is not None:
            # A child forked meanwhile has the lock's file open too.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Let go of the turn's file, which a forked child has from its parent."""
        self._next_at = None
        self._has_begun = False
        self._interval = _SOONEST
        self._patience = min(_PATIENCE)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_turn(self) -> None:
        self._folder.mkdir(exist_ok=True)
        lock = os.open(self._folder / "checkpoint.lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if not isinstance(error, BlockingIOError):  # another process has it
                raise
        else:
            self._lock = lock
            self._next_at = time.monotonic() + _UNUSED

    def _size(self) -> int:
        with contextlib.suppress(OSError):
            return self._log.stat().st_size
        return 0
