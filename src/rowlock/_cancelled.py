"""The signal by which an attempt is asked to stop, for threads and for async code."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import asyncio

Reason: TypeAlias = Literal["cancel", "timeout", "shutdown", "lost"]


class Cancelled:
    """
    A signal that this attempt should stop, with the reason.

    Threads wait on it (`wait(timeout)`) or look (`is_set()`, or just `if`), and leave
    by `raise_if_set()`; async code awaits it. An async handler is cancelled as well.
    `reason` is `cancel` (somebody asked), `timeout`, `shutdown` or `lost` (another
    worker may have the job), None until set.

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

    def raise_if_set(self) -> None:
        """
        End the handler here if the attempt should stop.

        Call it between two steps. At a shutdown the job is given back, due at once and
        with no failure; after a cancel it is cancelled; a timeout is a timeout. A
        handler that returns instead has succeeded.

        Raises:
            asyncio.CancelledError: as async handlers get it, since no
                `except Exception` swallows that.

            >>> cancelled = Cancelled()
            >>> cancelled.raise_if_set()
            >>> cancelled.set("shutdown")
            >>> cancelled.raise_if_set()
            Traceback (most recent call last):
            ...
            asyncio.exceptions.CancelledError: shutdown
        """
        import asyncio

        if self.reason is not None:
            raise asyncio.CancelledError(self.reason)

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
        import asyncio

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
        with _making:
            if self.reason is not None:
                return
            self.reason = reason
        if self._event is not None:
            self._event.set()
        for loop, future in tuple(self._waiters):
            # A loop that a thread had to itself may just have closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, future, reason)


# Two threads that begin to wait at once wait on the same event, and of two that set it
# one was first.
_making = threading.Lock()


def _resolve(future: asyncio.Future[Reason], reason: Reason) -> None:
    if not future.done():
        future.set_result(reason)
