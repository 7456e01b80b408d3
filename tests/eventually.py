"""Waiting for what other processes and tasks do, up to a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

POLL_S = 0.02


@overload
async def eventually(
    ask: Callable[[], Awaitable[T | None]], *, within: float = ..., what: str = ...
) -> T: ...
@overload
async def eventually(
    ask: Callable[[], bool], *, within: float = ..., what: str = ...
) -> bool: ...
async def eventually(
    ask: Callable[[], Awaitable[object] | bool], *, within: float = 10, what: str = ""
) -> object:
    """Ask until the answer is true-ish, and give it; fail after `within` seconds."""
    give_up_at = time.monotonic() + within
    while True:
        asked = ask()
        if answer := asked if isinstance(asked, bool) else await asked:
            return answer
        if time.monotonic() > give_up_at:
            msg = f"Not within {within:g} s: {what or ask.__name__}"
            raise AssertionError(msg)
        await asyncio.sleep(POLL_S)  # what is asked for happens elsewhere
