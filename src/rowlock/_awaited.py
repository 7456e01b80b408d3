"""
Calls that say so when nobody awaits them.

`send_receipt.enqueue(order_id=42)` without `await` does nothing, and Python only warns
of it, in words that name no task. Here the call itself notices, and says what to write.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from rowlock._errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")

DROPPED = (
    "%(call)s(...) was called without await at %(place)s: nothing was done. Write"
    " `await %(call)s(...)`, or %(call)s_sync(...) in synchronous code."
)

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

    def __bool__(self) -> bool:
        # asyncio shows a task only after it has looked whether that has one (3.13).
        caller = sys._getframe(1)  # noqa: SLF001 - as `warnings` and `logging` do
        module = str(caller.f_globals.get("__name__"))
        if self._is_used or module.startswith("asyncio."):
            return True
        # It would be true, as in `if app.once(...)`, whatever the answer is.
        self.close()
        raise UsageError(DROPPED % self._names())

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
        self._tell_dropped(self._names())

    def _names(self) -> Mapping[str, str]:
        return {"call": self.__name__, "place": self._place}

    def _tell_dropped(self, told: Mapping[str, str]) -> None:
        logger.error(DROPPED, told)


def awaited(
    owner: str,
) -> Callable[
    [Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]
]:
    """
    Have the calls of a method notice that nobody awaits them.

    `owner` is what it is called on, as its user calls that: `app`; in `{.name}` it is
    the object's own name.
    """

    def decorate(
        function: Callable[P, Coroutine[Any, Any, T]],
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            name = f"{owner.format(*args[:1])}.{function.__name__}"
            return Call(function(*args, **kwargs), name)

        mark_coroutine_function(call)
        return call

    return decorate


# Python 3.11 keeps the mark in asyncio, which `import rowlock` goes without.
_unmarked: list[Callable[..., object]] = []


def mark_coroutine_function(function: Callable[..., object]) -> None:
    """
    Have a function that returns a `Call` pass for an `async def`.

    Frameworks ask, as Starlette's background tasks do, and would run it in a thread
    otherwise, where nobody awaits what it returns.
    """
    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(function)
    else:
        _unmarked.append(function)


def mark_by_asyncio() -> None:
    """Mark what was to be marked before asyncio was there; since 3.12 nothing is."""
    if not _unmarked:
        return
    import asyncio

    mark = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined] # noqa: SLF001 - as 3.12 does
    for function in _unmarked:
        function._is_coroutine = mark  # type: ignore[attr-defined]  # noqa: SLF001
    # Now, as another thread may be about it, too: whoever comes has nothing to do.
    _unmarked.clear()
