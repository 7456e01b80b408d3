"""
Extending leases, from a thread that no handler can starve.

The thread has an event loop of its own, and so a connection of its own to the store. It
reads a copy of what is held; what the store calls lost is judged on the worker's loop,
against what has ended meanwhile, before anybody is told.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rowlock._errors import StoreError, StoreUnavailable
from rowlock._events import worker_logger
from rowlock._loops import new_loop

if TYPE_CHECKING:
    from rowlock._store import Renewal
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings

# A little more often than every third of the lease: at exactly a third, a write that
# is late by a breath would count as a gap in law 17.
SHARE_OF_LEASE = 0.3


class Renew:
    """The renewal thread of one worker."""

    def __init__(
        self,
        settings: Settings,
        runs: Runs,
        *,
        on_renewal: Callable[[Renewal], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._settings = settings
        self._runs = runs
        self._on_renewal = on_renewal
        self._on_error = on_error
        self._asked: list[concurrent.futures.Future[None]] = []
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self._stopping = False
        self._main: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudge: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="rowlock-renew", daemon=True
        )

    def start(self) -> None:
        """Start the thread, from the worker's loop."""
        self._main = asyncio.get_running_loop()
        try:
            self._thread.start()
        except RuntimeError as error:
            raise _unable(error) from error
        self._ready.wait()
        if self._failure is not None:
            raise _unable(self._failure) from self._failure

    async def now(self) -> None:
        """Renew at once, and wait until it is tried."""
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._lock:
            self._asked.append(future)
        self._wake()
        await asyncio.wrap_future(future)

    async def stop(self) -> None:
        """End the thread after the renewal under way."""
        if not self._thread.is_alive():
            return
        self._stopping = True
        with contextlib.suppress(RuntimeError):  # it has ended meanwhile
            self._wake()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join, 5.0)

    def _wake(self) -> None:
        if self._loop is not None and self._nudge is not None:
            self._loop.call_soon_threadsafe(self._nudge.set)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.get_loop()  # before the coroutine that would be left behind
                runner.run(self._serve())
        except Exception as error:  # noqa: BLE001 - logged, or told to who starts it
            self._failure = error
            if self._ready.is_set():
                worker_logger.exception("The renewal of leases has ended.")
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._nudge = asyncio.Event()
        self._ready.set()
        while not self._stopping:
            self._nudge.clear()
            with self._lock:
                asked, self._asked = self._asked, []
            pause = await self._turn()
            for future in asked:
                # Who was cancelled meanwhile has taken his future with him.
                if future.set_running_or_notify_cancel():
                    future.set_result(None)
            try:
                await asyncio.wait_for(self._nudge.wait(), pause)
            except TimeoutError:
                continue

    async def _turn(self) -> float:
        """Renew once; tell how long to wait before the next time."""
        now, lease_s = time.monotonic(), self._settings.lease_s
        keys = [run.key for run in self._runs if run.is_renewed(now, lease_s)]
        try:
            renewal = await self._settings.store.renew(
                keys, worker=self._settings.worker, lease=self._settings.lease
            )
        except StoreError as error:
            self._tell(self._on_error, error)
            # Often enough that one answer before the lease's end saves the claims.
            return min(lease_s / 20, 1.0)
        except Exception:  # noqa: BLE001 - a renewal that ends loses every claim
            worker_logger.exception("Renewal failed; it is tried again.")
            return min(lease_s / 20, 1.0)
        self._tell(self._on_renewal, renewal)
        return lease_s * SHARE_OF_LEASE

    def _tell(self, hear: Callable[..., None], news: object) -> None:
        if self._main is None:
            return
        try:
            self._main.call_soon_threadsafe(hear, news)
        except RuntimeError:  # the worker's loop is closed: nobody is left to tell
            self._stopping = True


def _unable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"The renewal of leases can't start ({error}), and without it no job is safe:"
        " nothing was claimed, try again."
    )
