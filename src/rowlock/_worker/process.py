"""One child process, as its worker holds it: a pipe, and the power to kill it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading
import time
from collections import deque
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING

from rowlock._worker.child import main
from rowlock._worker.messages import Answer, End

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

    from rowlock._worker.messages import Setup

# In the middle of a message: a child that was stopped there must not stop us.
LONGEST_PAUSE_S = 10
LONGEST_GOODBYE_S = 2.0
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
UNKNOWN = 255  # multiprocessing's, where the fork server has died

# Whoever starts or reaps one looks at all of them: two at once would take each other's
# exit codes.
_reaping = threading.Lock()


class Gone(Exception):
    """The child has died."""


class Process:
    """A child process; one thread at a time speaks with it, any may kill it."""

    def __init__(self, context: ForkServerContext | SpawnContext, setup: Setup) -> None:
        self.jobs = 0
        self._ours, theirs = context.Pipe()
        self._woken, self._waker = context.Pipe(duplex=False)
        self._answers: deque[Answer] = deque()
        self._is_reaped = False
        self._why: str | None = None
        self._how: str | None = None
        self._is_closed = threading.Lock()
        self._waking = threading.Lock()
        # A daemon, so that no exit waits for it.
        process = context.Process(target=main, args=(theirs, setup), daemon=True)
        self._process = process
        with _reaping:
            process.start()
        theirs.close()
        self._sentinel: int | None = process.sentinel
        _bound(self._ours.fileno())
        self.pid = process.pid or 0
        self._began = _began(self.pid)

    def send(self, message: object) -> None:
        """Send a message, from the thread that speaks with it."""
        try:
            self._ours.send(message)
        except OSError as error:
            self.kill()
            raise Gone from error

    def answer(self, answer: Answer) -> None:
        """Have an answer sent, from any thread."""
        self._answers.append(answer)
        self.wake()

    def wake(self) -> None:
        """Have `hear` return, from any thread."""
        # Closed meanwhile, its number could be that of somebody else's file.
        with self._waking, contextlib.suppress(OSError, ValueError):  # it has ended
            self._waker.send_bytes(b"")

    def hear(self, until: float | None) -> object:
        """Wait for a message until a monotonic instant; None: there is none yet."""
        watched: list[object] = [self._ours, self._woken]
        if self._sentinel is not None:
            watched.append(self._sentinel)
        left = None if until is None else max(until - time.monotonic(), 0)
        ready = wait(watched, left)  # type: ignore[arg-type]  # each can be waited for
        if self._woken in ready:
            self._woken.recv_bytes()
            while self._answers:
                self.send(self._answers.popleft())
        # What it has said before it died comes first.
        if self._ours in ready or self._ours.poll():
            try:
                return self._ours.recv()
            except (EOFError, ConnectionError) as error:
                self.kill()
                raise Gone from error
            except Exception as error:  # what can't be read comes from nobody sound
                self._why = "the child process was killed, as what it sent is garbled,"
                self.kill()
                raise Gone from error
        if self._sentinel in ready and self.is_gone():
            raise Gone
        return None

    def is_gone(self) -> bool:
        """Tell whether it has died."""
        if self._is_reaped:
            return True
        with _reaping:
            code = self._process.exitcode
        if code is None:
            return False
        if code == UNKNOWN and _lives(self.pid):
            # The fork server has died, and it hasn't; its pipe will tell.
            self._sentinel = None
            return False
        self._is_reaped = True
        return True

    def rss_mb(self) -> float:
        """Tell how much memory it holds; 0 where that can't be read."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return 0.0
        return int(pages[1]) * PAGE_MB if pages else 0.0

    def kill(self) -> None:
        """Kill it, and all that it has started, from any thread."""
        if self._is_reaped:
            return
        if self._is_itself():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)
        self._kill_group()

    def _kill_group(self) -> None:
        if self._is_itself():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _is_itself(self) -> bool:
        """
        Tell whether its number isn't another process's by now.

        Where nobody has it, what the child has started may live on in its group, and
        keeps the number from being given again.
        """
        return _began(self.pid) in (None, self._began)

    def ends_by(self, until: float) -> bool:
        """Wait until it has ended, at most until a monotonic instant."""
        left = max(until - time.monotonic(), 0)
        return bool(wait([self._process.sentinel], left))

    def say_end(self) -> None:
        """Tell an idle one to go, without waiting for it."""
        with contextlib.suppress(Gone):
            self.send(End())

    def end(self, *, at_once: bool = False) -> None:
        """End it, and let go of all that belongs to it; a second time does nothing."""
        if not self._is_closed.acquire(blocking=False):
            return
        if not at_once:
            self.say_end()
            wait([self._process.sentinel], LONGEST_GOODBYE_S)
        # Also where it has gone: what it has started may not have.
        self._kill_group()
        self.kill()
        wait([self._process.sentinel], LONGEST_GOODBYE_S)
        self.how_it_ended()
        with _reaping, contextlib.suppress(ValueError):  # it is in the kernel's hands
            self._process.close()
        with self._waking:
            for pipe in (self._ours, self._woken, self._waker):
                pipe.close()

    def how_it_ended(self) -> str:
        """Say how it ended: by which signal, or with which exit code."""
        if self._how is None:
            wait([self._process.sentinel], LONGEST_GOODBYE_S)
            with _reaping:
                code = self._process.exitcode
            self._is_reaped = code is not None
            self._how = self._why or _in_words(code)
        return self._how


def _in_words(code: int | None) -> str:
    if code is None or code == UNKNOWN:
        return "the child process ended, and nobody knows how,"
    if code >= 0:
        return f"the child process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    why = " (by the kernel for want of memory, perhaps)" if name == "SIGKILL" else ""
    return f"the child process was ended by {name}{why}"


def _bound(pipe: int) -> None:
    """Bound every read and write in the middle of a message."""
    pause = struct.pack("ll", LONGEST_PAUSE_S, 0)
    with socket.socket(fileno=os.dup(pipe)) as end:
        # Python would make it non-blocking, and so the pipe, had it a timeout itself.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, pause)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, pause)


def _began(pid: int) -> str | None:
    """Tell when a process began, in the kernel's ticks; None where there is none."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # What it is called stands in parentheses, and may hold anything.
    return told.rpartition(")")[2].split()[19]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
