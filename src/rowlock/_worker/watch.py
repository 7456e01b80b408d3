"""
The thread that no handler can starve.

It has an event loop of its own, and so connections of its own to the store. What it
does comes in turns, each told how long to wait before the next: extending leases,
hearing of cancels, watching whether the worker's loop still turns.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from rowlock._errors import StoreUnavailable
from rowlock._events import worker_logger
from rowlock._loops import new_loop

Turn: TypeAlias = Callable[[], Awaitable[float]]
"""Does something once, and tells after how many seconds to do it again."""

AGAIN_S = 1.0
# A thread that waits for a store that is gone is left behind: it is a daemon.
LONGEST_JOIN_S = 1.0


class Watch:
    """The thread of one worker beside its loop."""

    def __init__(self) -> None:
        self._turns: Sequence[Turn] = ()
        self._failure: Exception | None = None
        self._main: asyncio.AbstractEventLoop | None = None
        # The thread's, from its start on.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._ready = threading.Event()
        # asyncio holds its tasks weakly: one that nobody waits for could vanish.
        self._kept: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(
            target=self._run, name="rowlock-watch", daemon=True
        )

    @property
    def is_live(self) -> bool:
        """Whether it still takes its turns."""
        return self._thread.is_alive()

    def start(self, turns: Sequence[Turn]) -> None:
        """Start the thread, from the worker's loop."""
        self._turns = turns
        self._main = asyncio.get_running_loop()
        try:
            self._thread.start()
        except RuntimeError as error:
            raise _unable(error) from error
        self._ready.wait()
        if self._failure is not None:
            raise _unable(self._failure) from self._failure

    def soon(self, turn: Turn) -> concurrent.futures.Future[None]:
        """
        Have a turn taken at once, from any thread; done when it was tried.

        Raises:
            RuntimeError: the thread hasn't started, or has ended.
        """
        if self._loop is None:
            msg = "The thread that renews leases hasn't started."
            raise RuntimeError(msg)
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._loop.call_soon_threadsafe(self._begin, turn, future)
        return future

    async def now(self, turn: Turn) -> None:
        """Have a turn taken at once, and wait until it was tried."""
        await asyncio.wrap_future(self.soon(turn))

    def tell(self, hear: Callable[..., None], *news: object) -> None:
        """Call something on the worker's loop."""
        # Closed: nobody is left to tell.
        if self._main is not None:
            with contextlib.suppress(RuntimeError):
                self._main.call_soon_threadsafe(hear, *news)

    async def stop(self) -> None:
        """End the thread after the turns under way."""
        if self._loop is None or not self._thread.is_alive():
            return
        with contextlib.suppress(RuntimeError):  # it has ended meanwhile
            self._loop.call_soon_threadsafe(self._stopping.set)
        await asyncio.get_running_loop().run_in_executor(
            None, self._thread.join, LONGEST_JOIN_S
        )

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
        self._ready.set()
        await asyncio.gather(*(self._repeat(turn) for turn in self._turns))

    async def _repeat(self, turn: Turn) -> None:
        while not self._stopping.is_set():
            pause = await self._take(turn)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _take(self, turn: Turn) -> float:
        try:
            return await turn()
        except Exception:  # noqa: BLE001 - a renewal that ends loses every claim
            name = getattr(turn, "__qualname__", turn)
            worker_logger.exception("%s failed; it is tried again.", name)
            return AGAIN_S

    def _begin(self, turn: Turn, future: concurrent.futures.Future[None]) -> None:
        async def take() -> None:
            try:
                await self._take(turn)
            finally:
                # Who was cancelled meanwhile has taken his future with him.
                if future.set_running_or_notify_cancel():
                    future.set_result(None)

        task = asyncio.get_running_loop().create_task(take())
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)


def _unable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"The renewal of leases can't start ({error}), and without it no job is safe:"
        " nothing was claimed, try again."
    )
