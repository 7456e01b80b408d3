"""
Calls that say so when nobody awaits them.

`send_receipt.enqueue(order_id=42)` without `await` does nothing, and Python only warns
of it, in words that name no task. Here the call itself notices, and says what to write.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger("rowlock")


class Call(Coroutine[Any, Any, T]):
    """
    A coroutine that logs an error where it was dropped before it began.

    It is a `Coroutine` like any other to asyncio: `create_task`, `gather`, `wait_for`
    and `asyncio.run` take it. `name` is the call's, as in `greet.enqueue`.
    """

    __slots__ = ("__name__", "__qualname__", "_coroutine", "_is_used", "_place")

    def __init__(self, coroutine: Coroutine[Any, Any, T], name: str) -> None:
        self._coroutine = coroutine
        self._is_used = False
        # What asyncio's tasks are shown by.
        self.__name__ = self.__qualname__ = name
        # The caller of whoever makes this; no frame is kept.
        caller = sys._getframe(2)  # noqa: SLF001 - as `warnings` and `logging` do
        self._place = f"{caller.f_code.co_filename}:{caller.f_lineno}"

    def __await__(self) -> Generator[Any, Any, T]:
        self._is_used = True
        return self._coroutine.__await__()

    def __repr__(self) -> str:
        return f"<call of {self.__name__} at {self._place}>"

    def send(self, value: Any, /) -> Any:  # noqa: ANN401 - as asyncio's own
        """Take a step."""
        self._is_used = True
        return self._coroutine.send(value)

    def throw(
        self,
        kind: Any,  # noqa: ANN401 - an exception, or its class in Python's old way
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> Any:  # noqa: ANN401 - as asyncio's own
        """Take a step with an exception."""
        self._is_used = True
        error = kind if value is None else value
        if traceback is not None and isinstance(error, BaseException):
            error = error.with_traceback(traceback)
        return self._coroutine.throw(error)  # type: ignore[arg-type]  # its class, too

    def close(self) -> None:
        """End it, begun or not."""
        self._is_used = True
        self._coroutine.close()

    def __del__(self) -> None:
        # Where __init__ failed, there is nothing to tell of.
        if getattr(self, "_is_used", True):
            return
        self.close()  # or Python complains of the inner one, too
        logger.error(
            "%s(...) was called without await at %s: nothing was enqueued. Write"
            " `await %s(...)`, or %s_sync(...) in synchronous code.",
            self.__name__,
            self._place,
            self.__name__,
            self.__name__,
        )


def mark_coroutine_function(function: Callable[..., object]) -> None:
    """
    Have a function that returns a `Call` pass for an `async def`.

    Frameworks ask, as Starlette's background tasks do, and would run it in a thread
    otherwise, where nobody awaits what it returns.
    """
    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(function)
    else:
        import asyncio

        mark = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined] # noqa: SLF001 - as 3.12 does
        function._is_coroutine = mark  # type: ignore[attr-defined]  # noqa: SLF001
