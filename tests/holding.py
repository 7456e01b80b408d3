"""A user's transaction that locks all that it can, beside a worker of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
)

Hold = Callable[[], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def held(lock: AbstractContextManager[None]) -> AsyncIterator[None]:
    """Lock in a thread, as it may have to wait for a transaction of this loop."""
    with ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, lock)
        yield
