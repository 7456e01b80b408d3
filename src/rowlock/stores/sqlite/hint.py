"""
Hints between processes: a byte that says that a database has changed.

Each process that sleeps binds a datagram socket in the folder `<database>.wake`; who
has committed sends a byte to each. A hint may be lost, or come for nothing: what it
does is have `PRAGMA data_version` asked at once instead of a little later. Where there
are no such sockets, or the path is too long for one, there are no hints.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_SUFFIX = ".sock"
_LONGEST = 103  # bytes of a path: macOS allows this many, Linux four more
_FRESH = 1.0  # seconds for which the list of sockets is taken as it was

# Who had bound it is gone, by whatever way.
_STALE = (errno.ECONNREFUSED, errno.ENOENT)


class Hints:
    """This process's own socket, and those of the others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: Path | None = None
        self._socket: socket.socket | None = None
        self._sender: socket.socket | None = None
        self._others: list[str] = []
        self._listed_at = -_FRESH
        self._listed: int | None = None
        self._is_possible = (
            hasattr(socket, "AF_UNIX")
            and len(os.fsencode(folder / f"{'0' * 16}{_SUFFIX}")) <= _LONGEST
        )

    @property
    def is_listening(self) -> bool:
        """Whether this process hears hints."""
        return self._socket is not None

    def listen(self, hinted: Callable[[], None]) -> None:
        """Have `hinted` called, by a thread of its own, for each hint that comes."""
        if self._socket is not None or not self._is_possible:
            return
        own = self._folder / f"{secrets.token_hex(8)}{_SUFFIX}"
        try:
            self._folder.mkdir(exist_ok=True)
            bound = _bind(own)
        except OSError:
            self._is_possible = False
            return
        try:
            threading.Thread(
                target=_hear,
                args=(bound, hinted),
                name="rowlock-sqlite-hints",
                daemon=True,
            ).start()
        except RuntimeError:  # no thread to be had: a hint is not worth more
            bound.close()
            own.unlink(missing_ok=True)
            self._is_possible = False
            return
        self._own, self._socket = own, bound

    def unlisten(self) -> None:
        """Hear no more hints."""
        if self._socket is None or self._own is None:
            return
        # An empty datagram ends the thread, which closes the socket.
        with contextlib.suppress(OSError):
            self._send(str(self._own), b"")
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._own.unlink()
        self._own = self._socket = None

    def send(self) -> None:
        """Give every other process a hint."""
        if not self._is_possible:
            return
        for other in tuple(self._list()):
            try:
                self._send(other, b"!")
            except OSError as error:
                if error.errno in _STALE:
                    self._others.remove(other)
                    with contextlib.suppress(OSError):
                        Path(other).unlink()
                # Otherwise its buffer is full: it has hints enough.

    def close(self) -> None:
        """Let go of both sockets."""
        self.unlisten()
        self.forget()

    def forget(self) -> None:
        """Let go of the sockets, which a forked child has from its parent."""
        if self._socket is not None:
            self._socket.close()
            self._own = self._socket = None
        if self._sender is not None:
            self._sender.close()
            self._sender = None

    def _send(self, path: str, message: bytes) -> None:
        if self._sender is None:
            self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._sender.setblocking(False)  # noqa: FBT003 - the socket's own way
        self._sender.sendto(message, path)

    def _list(self) -> list[str]:
        """List the others; anew where the folder changed, or a second has passed."""
        now = time.monotonic()
        try:
            changed = self._folder.stat().st_mtime_ns
            # Its time is coarse: two sockets made within a tick of it look like one.
            if changed != self._listed or now - self._listed_at >= _FRESH:
                self._others = [
                    str(other)
                    for other in self._folder.iterdir()
                    if other.suffix == _SUFFIX and other != self._own
                ]
                self._listed, self._listed_at = changed, now
        except OSError:
            return []
        return self._others


def _bind(own: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        bound.bind(str(own))
    except OSError:
        bound.close()
        raise
    return bound


def _hear(bound: socket.socket, hinted: Callable[[], None]) -> None:
    with contextlib.closing(bound):
        while True:
            try:
                message = bound.recv(1)
            except OSError:
                return
            if not message:
                return
            hinted()
