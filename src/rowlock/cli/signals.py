"""SIGINT and SIGTERM: the first one drains, a second one ends at once."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import NoReturn

from rowlock.cli.errors import FAILED, INTERRUPTED

# Ctrl-C reaches a wrapper script and its child, and the wrapper passes it on: two
# signals that close together are one.
SAME_SIGNAL_S = 0.5
# How much longer than its time a shutdown may take, before the process ends anyhow.
OVERRUN_S = 3.0
FLUSH_S = 1.0
STOPPING = (signal.SIGINT, signal.SIGTERM)
STOPS = (
    "%s: claiming no more, and waiting for what runs; once more, after half a second,"
    " ends at once."
)
AT_ONCE = "ended at once, and what ran is left to its lease."

logger = logging.getLogger("rowlock.cli")


class StopSignals:
    """
    Calls `stop` on the running loop at the first signal, ends the process at a second.

    Signals are heard in a thread of their own, by a socket that the interpreter writes
    to: a handler may block the event loop, even in C code, in which Python calls no
    function of ours. So the process ends in its time whatever the loop does: past
    `within_s` and a little more, with `code`, after `abandon` was called there.
    """

    def __init__(
        self,
        stop: Callable[[float], None],
        *,
        within_s: float,
        abandon: Callable[[], None],
    ) -> None:
        self.code = FAILED
        self._stop = stop
        self._within_s = within_s
        self._abandon = abandon
        import asyncio  # not for a supervisor, which has no loop

        self._loop = asyncio.get_running_loop()
        self._has_begun = False
        self._ours, self._signals = socket.socketpair()
        self._signals.settimeout(0)  # as set_wakeup_fd wants it
        for number in STOPPING:
            signal.signal(number, self._hear)
        signal.set_wakeup_fd(self._signals.fileno(), warn_on_full_buffer=False)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forget)
        threading.Thread(
            target=self._listen, name="rowlock-signals", daemon=True
        ).start()

    def hear(self, number: int) -> None:
        """Take what the supervisor says as the signal that it names."""
        with contextlib.suppress(OSError):
            self._signals.send(bytes([number]))

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        """Pass a signal on where somebody else's socket got it, as another loop's."""
        ours = self._signals.fileno()
        with contextlib.suppress(OSError, ValueError):  # theirs is closed, ours is full
            other = signal.set_wakeup_fd(ours, warn_on_full_buffer=False)
            if other != ours:
                self._signals.send(bytes([number]))
                signal.set_wakeup_fd(other, warn_on_full_buffer=False)

    def _listen(self) -> None:
        name = self._next(None)
        first_at = time.monotonic()
        # In a thread, and before anything that the loop says: it may be blocked, and
        # who blocks it may hold the log's lock.
        saying = threading.Thread(target=logger.info, args=(STOPS, name), daemon=True)
        saying.start()
        saying.join(FLUSH_S)
        try:
            self._loop.call_soon_threadsafe(self._begin, first_at)
        except RuntimeError:  # the loop is closed: it was ending by itself
            end_at_once(INTERRUPTED)
        while again := self._next(first_at + self._within_s + OVERRUN_S):
            if time.monotonic() - first_at > SAME_SIGNAL_S:
                say = partial(logger.warning, "%s once more: %s", again, AT_ONCE)
                end_at_once(INTERRUPTED, say)
        try:
            self._abandon()
        finally:  # whatever that came to
            end_at_once(self.code, self._complain)

    def _next(self, until: float | None) -> str | None:
        """Wait for a signal that stops; None where none has come in time."""
        while True:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._ours.settimeout(left)
            with contextlib.suppress(TimeoutError):
                # It is told of every signal that this process handles.
                for number in self._ours.recv(1):
                    if number in STOPPING:
                        return signal.Signals(number).name

    def _begin(self, first_at: float) -> None:
        self._has_begun = True
        self._stop(first_at)

    def _complain(self) -> None:
        if self.code:
            logger.critical(
                "The worker hasn't ended in its %g s, and is ended; %s.",
                self._within_s,
                "its jobs are left to their leases"
                if self._has_begun
                else "a handler blocks the event loop, and all jobs are left to their"
                " leases",
            )


class Heard:
    """Signals as they come, for who waits for them and for more with a selector."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._ours, self._signals = socket.socketpair()
        self._ours.settimeout(0)
        self._signals.settimeout(0)
        for number in numbers:
            signal.signal(number, _ignore)
        signal.set_wakeup_fd(self._signals.fileno(), warn_on_full_buffer=False)

    def fileno(self) -> int:
        """Give the number of the file that can be read when a signal has come."""
        return self._ours.fileno()

    def read(self) -> bytes:
        """Give the numbers of those that have come."""
        try:
            return self._ours.recv(4096)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """Hear no more; what comes now is ignored, as the end is near."""
        signal.set_wakeup_fd(-1)
        self._ours.close()
        self._signals.close()


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: what the interpreter writes to its socket is what counts."""


def end_at_once(code: int, say: Callable[[], None] | None = None) -> NoReturn:
    """End the process without waiting for any handler, thread or exit hook."""

    def flush() -> None:
        if say is not None:
            say()
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()

    # In a thread, since somebody who doesn't go on may hold the log's lock.
    flushing = threading.Thread(target=flush, daemon=True)
    flushing.start()
    flushing.join(FLUSH_S)
    os._exit(code)


def end_soon(code: int, after_s: float) -> None:
    """End the process with this code, should it still be there after a while."""
    timer = threading.Timer(after_s, end_at_once, args=(code,))
    timer.daemon = True
    timer.start()


def _forget() -> None:
    """Have a forked child, as a handler may make one, die of signals as any other."""
    # Its socket is the parent's too, which would take the child's end for its own.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
