"""
The synchronous door: the same coroutines, run on a loop of their own.

Views and scripts have no event loop, and one per call would open a pool per call. So
an app keeps one loop in a background thread, started at the first synchronous call.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from rowlock._errors import UsageError

T = TypeVar("T")


class Portal:
    """Runs coroutines from synchronous code, on one background loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def run(self, call: Coroutine[Any, Any, T], name: str) -> T:
        """
        Run a coroutine and wait for it; `name` is the call's, for the refusal.

        Raises:
            UsageError: a loop runs in this thread, which waiting would block.
        """
        try:
            refuse_on_a_loop(name)
        except UsageError:
            call.close()
            raise
        return self.wait(call)

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it, whatever else runs in this thread."""
        return asyncio.run_coroutine_threadsafe(call, self._running_loop()).result()

    def close(self) -> None:
        """Stop the loop; the next call starts another."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is not None and self._pid == os.getpid():
                loop.call_soon_threadsafe(loop.stop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # After a fork the thread is the parent's: the child needs its own.
            if self._loop is None or self._pid != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._pid = os.getpid()
                threading.Thread(
                    target=_serve, args=(self._loop,), name="rowlock-sync", daemon=True
                ).start()
            return self._loop


def refuse_on_a_loop(name: str) -> None:
    """Refuse a synchronous call that would block a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    msg = (
        f"{name}_sync() would block the event loop that runs in this thread:"
        f" write `await {name}(...)`."
    )
    raise UsageError(msg)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
