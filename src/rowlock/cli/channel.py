"""
The line between a supervisor and a worker process: JSON, an object a line.

The worker says `worker` (its id), `health`, why it `failed`, and whose claims are
`recovered`; the supervisor says `stop` (which signal) and `recover` (whose claims).
"""

from __future__ import annotations

import json
import socket
import threading
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]

# By which a worker process knows its supervisor: the numbers of two files, the line
# and the pipe that the supervisor's end closes.
VARIABLE = "ROWLOCK_SUPERVISED"
BUFFER = 65_536


class Channel:
    """One end of the line; any thread may send, one receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()
        self._rest = b""
        self._unsent = b""

    def fileno(self) -> int:
        """Give the number of the file, for who waits for several."""
        return self._end.fileno()

    def send(self, **message: object) -> None:
        """
        Send a message.

        Raises:
            OSError: the other end is closed, or takes nothing now, as where its process
                is stopped. It may still be told, with the next message.
        """
        line = json.dumps(message).encode() + b"\n"
        with self._sending:
            # A line that went in part goes on first, or nothing behind it can be read.
            self._write(self._unsent)
            self._unsent = b""
            self._write(line)

    def _write(self, line: bytes) -> None:
        left = line
        try:
            while left:
                left = left[self._end.send(left) :]
        except OSError:
            if left != line:
                self._unsent = left
            raise

    def receive(self) -> list[Message]:
        """
        Receive what has come, which may be no whole message.

        Raises:
            EOFError: the other end is closed.
        """
        came = self._end.recv(BUFFER)
        if not came:
            raise EOFError
        *lines, self._rest = (self._rest + came).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Close this end."""
        self._end.close()
