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
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

from rowlock._errors import StoreUnavailable, UsageError
from rowlock._loops import new_loop

T = TypeVar("T")


class Portal:
    """Runs coroutines from synchronous code, on one background loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        _portals.add(self)

    def run(self, call: Coroutine[Any, Any, T], name: str) -> T:
        """
        Run a coroutine and wait for it; `name` is the call's, for the refusal.

        Raises:
            UsageError: a loop runs in this thread, which waiting would block.
            StoreUnavailable: the machine has no thread left for the loop, or the
                program is at its exit (since Python 3.12).
        """
        try:
            refuse_on_a_loop(name)
        except UsageError:
            call.close()
            raise
        return self.wait(call)

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it, whatever else runs in this thread."""
        # Under the lock, or a close could come between: nobody would run the call.
        with self._lock:
            try:
                loop = self._running_loop()
            except StoreUnavailable:
                call.close()
                raise
            future = asyncio.run_coroutine_threadsafe(call, loop)
        try:
            return future.result()
        finally:
            # Where a Ctrl-C ends the waiting, nobody wants the rest. Else it is over.
            future.cancel()

    def close(self) -> threading.Thread | None:
        """
        Stop the loop after the calls under way; the next call starts another.

        Returns its thread, to join; None where there was none.
        """
        with self._lock:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
            if loop is not None:
                with suppress(RuntimeError):  # at exit the loop may be gone before
                    loop.call_soon_threadsafe(loop.stop)
            return thread

    def __del__(self) -> None:
        # Of an app that is dropped unclosed. A store's own finalizer, no `__del__`,
        # comes before: what it has closed on this loop is waited for by the loop.
        self.close()

    def forget(self) -> None:
        """Begin without a loop; in a forked child the thread is its parent's."""
        self._lock = threading.Lock()
        self._loop = self._thread = None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = new_loop()
            thread = threading.Thread(
                target=_serve, args=(loop,), name="rowlock-sync", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                loop.close()
                msg = f"Nothing was written, as there is no thread to be had: {error}."
                raise StoreUnavailable(msg) from error
            # Only now: on a loop that nobody runs a call would wait for ever.
            self._loop, self._thread = loop, thread
        return self._loop


def refuse_on_a_loop(name: str) -> None:
    """Refuse a synchronous call that would block a running loop."""
    _refuse(f"{name}_sync()", f"await {name}(...)")


def refuse_with_on_a_loop(name: str) -> None:
    """Refuse a `with` that would block a running loop."""
    _refuse(f"with {name}", f"async with {name}")


def _refuse(written: str, instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    msg = (
        f"{written} would block the event loop that runs in this thread:"
        f" write `{instead}`."
    )
    raise UsageError(msg)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        while under_way := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(under_way))
        # A store's connections of this loop end with them.
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


_portals: WeakSet[Portal] = WeakSet()


def _after_fork() -> None:
    for portal in tuple(_portals):
        portal.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
