"""
Telling a writer of Rowlock's own from a user who holds the lock.

A user's lock is given a second (law 18). Another worker isn't one: it lets go by
itself, though a slow disk may take its time over a commit or a copy of the log. Who
writes holds a lock on a file beside the database meanwhile, for others to see.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: everybody passes for a user
    _HAS_LOCKS = False
else:
    _HAS_LOCKS = True


class Peers:
    """Those who write to one database, as its writer here sees them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Let others see that a peer is writing."""
        file = self._opened()
        # One who looks at this very moment is in the way: it isn't worth a wait.
        if file is None or not _lock(file):
            yield
            return
        try:
            yield
        finally:
            # A child forked meanwhile has the lock's file open too.
            fcntl.flock(file, fcntl.LOCK_UN)

    def is_one_writing(self) -> bool:
        """Look whether a peer is writing now."""
        file = self._opened()
        if file is None:
            return False
        if not _lock(file):
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Let go of the file; in a forked child it is the parent's."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int | None:
        if self._file is None and _HAS_LOCKS:
            # Without the folder nobody sees anybody, and a second has to do.
            with contextlib.suppress(OSError):
                self._folder.mkdir(exist_ok=True)
                self._file = os.open(
                    self._folder / "writing.lock", os.O_RDWR | os.O_CREAT, 0o666
                )
        return self._file


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
