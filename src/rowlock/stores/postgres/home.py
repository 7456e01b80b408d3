"""What one event loop has of a database, and how that ends with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from rowlock._errors import StoreError
from rowlock.stores.postgres.notify import Teller
from rowlock.stores.postgres.pool import PATIENCE, Pool
from rowlock.stores.postgres.sessions import Session


@dataclass(slots=True)
class Home:
    """What one event loop has of a database."""

    pool: Pool
    teller: Teller
    alarm: asyncio.TimerHandle | None = None


async def send(session: Session, payload: str) -> None:
    """Notify. What it tells of is written; who misses it looks by himself, later."""
    with contextlib.suppress(StoreError):
        await session.run("notify", payload=payload)


async def close(home: Home) -> None:
    """Tell what is still to be told, and close the connections."""
    # A server that doesn't answer is told nothing.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(home.teller.flush(), PATIENCE)
    await home.pool.close()


def close_there(home: Home, loop: asyncio.AbstractEventLoop) -> Callable[[], bool]:
    """Have another thread's loop close its connections; ask the answer whether."""
    closing: list[asyncio.Task[None]] = []

    def begin() -> None:
        closing.append(loop.create_task(close(home)))

    if loop.is_running():
        # It may end in this moment, and then closes what it has by itself.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(begin)
    return lambda: not loop.is_running() or any(task.done() for task in closing)


async def end(home: Home) -> None:
    """Tell what is still to be told, as the loop ends."""
    if home.alarm is not None:
        home.alarm.cancel()
    await home.teller.flush()
