"""
What a handler may ask about the attempt that it is.

`current_attempt()` finds it through a context variable, so handlers stay plain
functions; it works in async handlers, in threads, and in what they call.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Generator
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from rowlock._errors import UsageError

Reason: TypeAlias = Literal["cancel", "timeout", "shutdown", "lost"]


class Cancelled:
    """
    A signal that this attempt should stop, with the reason.

    Threads wait on it (`wait(timeout)`) or look (`is_set()`, or just `if`); async code
    awaits it. An async handler is cancelled as well. `reason` is `cancel` (somebody
    asked), `timeout`, `shutdown` or `lost` (another worker may have the job), None
    until set.

        >>> cancelled = Cancelled()
        >>> cancelled.set("shutdown")
        >>> if cancelled:
        ...     print(cancelled.reason)
        shutdown
    """

    __slots__ = ("_event", "_waiters", "reason")

    def __init__(self) -> None:
        self.reason: Reason | None = None
        # Made for the first thread that waits: most attempts have none, and it costs
        # as much as all else of one.
        self._event: threading.Event | None = None
        self._waiters: list[
            tuple[asyncio.AbstractEventLoop, asyncio.Future[Reason]]
        ] = []

    def is_set(self) -> bool:
        """Tell whether the attempt should stop."""
        return self.reason is not None

    def __bool__(self) -> bool:
        # `if attempt.cancelled` would be true from the start otherwise, and a handler
        # that asks so would end as soon as it began.
        return self.is_set()

    def __repr__(self) -> str:
        return f"<Cancelled: {self.reason or 'not set'}>"

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread until it is set or `timeout` seconds passed; tell which."""
        with _making:
            if self._event is None:
                self._event = threading.Event()
        # Set between the two: nobody else would tell us.
        return self.is_set() or self._event.wait(timeout)

    def __await__(self) -> Generator[object, None, Reason]:
        """Wait in async code; returns the reason."""
        if self.reason is not None:
            return self.reason
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reason] = loop.create_future()
        waiter = (loop, future)
        self._waiters.append(waiter)
        try:
            # Set between the first look and the append: nobody else would tell us.
            if self.reason is not None:
                return self.reason
            return (yield from future)
        finally:
            self._waiters.remove(waiter)

    def set(self, reason: Reason) -> None:
        """Set it; the first reason stays."""
        if self.reason is not None:
            return
        self.reason = reason
        if self._event is not None:
            self._event.set()
        for loop, future in tuple(self._waiters):
            # A loop that a thread had to itself may just have closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, future, reason)


# Two threads that begin to wait at once wait on the same event.
_making = threading.Lock()


def _resolve(future: asyncio.Future[Reason], reason: Reason) -> None:
    if not future.done():
        future.set_result(reason)


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """
    One start of a handler.

    `number` runs 1, 2, 3 with the starts, `failures` counts the failed ones before.
    `is_last` is what to ask before giving up in style: a failure now makes a dead
    letter. `deadline` is when the timeout strikes, on the store's clock, None without
    one. `idempotency_key` is stable over attempts and replays: pass it to other
    systems. `cancelled` is the signal to stop.
    """

    job_id: int
    task: str
    queue: str
    number: int
    failures: int
    is_last: bool
    deadline: datetime | None
    idempotency_key: str
    cancelled: Cancelled = field(default_factory=Cancelled)


_current: ContextVar[Attempt] = ContextVar("rowlock.attempt")


def current_attempt() -> Attempt:
    """
    Find the attempt that the calling handler is.

    Raises:
        UsageError: there is none here. A handler that is called as a plain function
            (in a unit test, say) has no attempt.

        >>> current_attempt()
        Traceback (most recent call last):
        ...
        rowlock.UsageError: No attempt runs here: current_attempt() works inside a \
handler that a worker started.
    """
    try:
        return _current.get()
    except LookupError:
        msg = (
            "No attempt runs here: current_attempt() works inside a handler that a"
            " worker started."
        )
        raise UsageError(msg) from None


def enter(attempt: Attempt) -> None:
    """Make this attempt the current one of the calling context."""
    _current.set(attempt)
