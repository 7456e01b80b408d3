"""SIGINT and SIGTERM: the first one drains, a second one ends at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from rowlock.cli.errors import INTERRUPTED

# Ctrl-C reaches a wrapper script and its child, and the wrapper passes it on: two
# signals that close together are one.
SAME_SIGNAL_S = 0.5
FLUSH_S = 1.0

logger = logging.getLogger("rowlock.cli")


class StopSignals:
    """
    Calls `stop` on the running loop at the first signal, ends the process at a second.

    Not by `loop.add_signal_handler`: its callbacks wait for the loop, so a handler that
    blocks it could never be interrupted; and Windows doesn't have it.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._first_at: float | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first_at is None:
            self._first_at = now
            try:
                # Nothing is logged here: the signal may have struck inside the log.
                self._loop.call_soon_threadsafe(
                    self._begin, signal.Signals(number).name
                )
            except RuntimeError:  # the loop is closed: it was ending by itself
                end_at_once(INTERRUPTED)
        elif now - self._first_at > SAME_SIGNAL_S:
            end_at_once(INTERRUPTED)

    def _begin(self, name: str) -> None:
        logger.info(
            "%s: claiming no more, and waiting for what runs; once more, after half a"
            " second, ends at once.",
            name,
        )
        self._stop()


def end_at_once(code: int) -> NoReturn:
    """End the process without waiting for any handler, thread or exit hook."""
    # In a thread, since whoever was interrupted here may hold the log's lock.
    flushing = threading.Thread(target=_flush, daemon=True)
    flushing.start()
    flushing.join(FLUSH_S)
    os._exit(code)


def end_soon(code: int, after_s: float) -> None:
    """End the process with this code, should it still be there after a while."""
    timer = threading.Timer(after_s, end_at_once, args=(code,))
    timer.daemon = True
    timer.start()


def _flush() -> None:
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
