"""What surrounds a handler, in the worker and in its children alike."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowlock._attempt import Attempt
    from rowlock._extensions import Around


async def surrounded(
    arounds: Sequence[Around], attempt: Attempt, call: Callable[[], Awaitable[object]]
) -> object:
    """Await a call inside what surrounds it, the first outermost."""
    async with contextlib.AsyncExitStack() as stack:
        for around in arounds:
            await stack.enter_async_context(around(attempt))
        return await call()
    return None  # what the handler raised was swallowed
