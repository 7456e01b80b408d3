"""
Calls of a test that nobody awaits: they look at nothing, so the test must not pass.

Where one is dropped nothing can be raised, so it is noted, and raised by who comes
next: pytest's plugin at the end of the test, or `isolated` at the end of its block.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, TypeVar

from rowlock._awaited import DROPPED, Call, mark_coroutine_function

P = ParamSpec("P")
T = TypeVar("T")

_dropped: list[str] = []


class Owed(Call[T]):
    """A call that fails the test where it was dropped before it began."""

    __slots__ = ()

    def _tell_dropped(self, told: Mapping[str, str]) -> None:
        super()._tell_dropped(told)
        _dropped.append(DROPPED % told)


def owed(
    function: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Have the calls of a function fail the test where they are dropped."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return Owed(function(*args, **kwargs), function.__name__)

    mark_coroutine_function(call)
    return call


def refuse_dropped(error: BaseException | None = None) -> None:
    """
    Fail where a call was dropped since the last time, unless `error` is failing it.

    Raises:
        AssertionError: it names the calls, where they are, and what to write.
    """
    __tracebackhide__ = True
    told = "\n".join(_dropped)
    _dropped.clear()
    if told and error is None:
        raise AssertionError(told)
