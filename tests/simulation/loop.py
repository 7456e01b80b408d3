"""
An event loop without a machine: chance chooses what runs next, and no time is waited.

Of what is ready, any may run first, which is more than asyncio promises and less than
threads do. When nothing is ready, the clock leaps to the next timer. What runs belongs
to a `Process`, by its context: when that dies, none of it takes another step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

from .clock import Clock

T = TypeVar("T")

# A coroutine may await in its `finally`, and is closed again then.
MOST_AWAITS = 20


class Process:
    """What dies at once, with all its tasks in mid-air."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False


IN: ContextVar[Process | None] = ContextVar("IN", default=None)


class Entry(asyncio.TimerHandle):
    """A call that is due, or will be; makes do without what debugging needs."""

    __slots__ = ("process",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> None:
        # One that is empty is false.
        context = copy_context() if context is None else context
        self._when = when
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self.process = context.get(IN)

    def cancel(self) -> None:
        self._cancelled = True


class Loop(asyncio.AbstractEventLoop):
    """Runs tasks in an order that one seed decides."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self.clock = clock
        self._random = random.random
        self._ready: list[Entry] = []
        self._timers: list[tuple[float, int, Entry]] = []
        self._count = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_running = False

    def run_until(self, instant: float) -> None:
        """Run all that is due until an instant of the clock."""
        asyncio._set_running_loop(self)
        self._is_running = True
        try:
            with patch("time.monotonic", self.clock.monotonic):
                while self._leap(instant):
                    self._run_ready()
        finally:
            self._is_running = False
            asyncio._set_running_loop(None)

    def _leap(self, instant: float) -> bool:
        """Go to the next time at which something is due; False: none until then."""
        if self._ready:
            return True
        timers, ready = self._timers, self._ready
        while timers and timers[0][0] <= instant:
            when, _, entry = heappop(timers)
            if entry._cancelled:
                continue
            self.clock.time = now = max(self.clock.time, when)
            ready.append(entry)
            while timers and timers[0][0] <= now:
                ready.append(heappop(timers)[2])
            return True
        self.clock.time = max(self.clock.time, instant)
        return False

    def _run_ready(self) -> None:
        """Run what is ready, and what that makes ready, in an order of chance."""
        ready, random = self._ready, self._random
        while ready:
            if len(ready) > 1:
                chosen = int(random() * len(ready))
                ready[chosen], ready[-1] = ready[-1], ready[chosen]
            entry = ready.pop()
            process = entry.process
            if not entry._cancelled and (process is None or not process.is_dead):
                entry._context.run(entry._callback, *entry._args)

    @contextmanager
    def inside(self, process: Process | None) -> Iterator[None]:
        """Begin tasks and calls that belong to a process."""
        token = IN.set(process)
        try:
            yield
        finally:
            IN.reset(token)

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: Context | None = None,
    ) -> asyncio.Handle:
        entry = Entry(0.0, callback, args, context)
        self._ready.append(entry)
        return entry

    # There is one thread.
    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        entry = Entry(when, callback, args, context)
        self._count += 1
        heappush(self._timers, (when, self._count, entry))
        return entry

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        # As `call_at`, which takes a call more: most of all calls come here.
        when = self.clock.time + delay
        entry = Entry(when, callback, args, context)
        self._count += 1
        heappush(self._timers, (when, self._count, entry))
        return entry

    def time(self) -> float:
        return self.clock.time

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name or "", context=context)
        # Of what nobody finishes, none may say so when it is collected.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Hear of errors that nobody asked for: those of what was dropped."""

    def close(self) -> None:
        """Drop what is left, in mid-air; nothing of it is scheduled any more."""
        asyncio._set_running_loop(self)
        try:
            for task in self._tasks:
                if not task.done():
                    _close(task.get_coro())
        finally:
            asyncio._set_running_loop(None)
        self._ready.clear()
        self._timers.clear()
        self._tasks.clear()


def _close(coroutine: Any) -> None:  # noqa: ANN401
    for _ in range(MOST_AWAITS):
        try:
            coroutine.close()
        except RuntimeError:
            continue  # it awaits something on its way out
        except BaseException:  # noqa: BLE001, S110 - what it raises, nobody waits for
            pass
        return
