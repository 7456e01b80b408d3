"""The real worker, with all that it does on the one loop of the simulation."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

from rowlock import App, Backoff
from rowlock._attempt import Attempt, current_attempt
from rowlock._clock import Clock as AnyClock
from rowlock._events import Event
from rowlock._extensions import Extensions
from rowlock._store import Retention
from rowlock._store import Store as AnyStore
from rowlock._worker.settings import Settings
from rowlock._worker.watch import Turn, Watch
from rowlock._worker.watchdog import Watchdog
from rowlock._worker.worker import Worker

from .loop import IN
from .store import Store
from .weather import LEASE_S

SAFETY_S = 3.0
SHUTDOWN_S = 3.0

app = App("sqlite://")


@app.task(backoff=Backoff.fixed(0.5))
async def work() -> None:
    await perform()


@app.task(backoff=Backoff.fixed(0.5), on_shutdown="keep")
async def keep() -> None:
    await perform()


async def perform() -> None:
    process = IN.get()
    assert isinstance(process, Place)
    await process.perform(current_attempt())


class SimulatedWatch(Watch):
    """
    The watching thread's turns, as tasks of the worker's loop.

    Without that of the watchdog: on one loop, none can watch the other.
    """

    def __init__(self) -> None:
        super().__init__()
        self._taking: list[asyncio.Task[None]] = []

    @property
    def is_live(self) -> bool:
        return bool(self._taking)

    def start(self, turns: Sequence[Turn]) -> None:
        self._main = self._loop = asyncio.get_running_loop()
        self._taking = [
            self._loop.create_task(self._repeat(turn))
            for turn in turns
            if not isinstance(getattr(turn, "__self__", None), Watchdog)
        ]

    async def now(self, turn: Turn) -> None:
        tried: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(_: object) -> None:
            if not tried.done():
                tried.set_result(None)

        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        future.add_done_callback(tell)
        self._begin(turn, future)
        await tried

    async def stop(self) -> None:
        self._stopping.set()
        for task in self._taking:
            task.cancel()
        self._taking = []

    async def _repeat(self, turn: Turn) -> None:
        while not self._stopping.is_set():  # noqa: ASYNC110 - it takes turns
            await asyncio.sleep(await self._take(turn))


class SimulatedWorker(Worker):
    """A worker that starts no thread."""

    _new_watch = SimulatedWatch


class Place:
    """What a worker finds in its process: replaced by the world's own."""

    async def perform(self, attempt: Attempt) -> None:
        """Do what the handler of an attempt does."""
        raise NotImplementedError


def new_worker(
    store: Store,
    clock: AnyClock,
    *,
    name: str,
    concurrency: int,
    queues: tuple[str, ...] | None,
    hear: Callable[[Event], Any],
) -> Worker:
    extensions = Extensions()
    extensions._listeners = [hear]
    return SimulatedWorker(
        Settings(
            store=cast("AnyStore", store),
            extensions=extensions,
            clock=clock,
            tasks=app.tasks,
            queues=queues,
            concurrency=concurrency,
            lease=timedelta(seconds=LEASE_S),
            timeout=app.timeout,
            shutdown_timeout=timedelta(seconds=SHUTDOWN_S),
            safety_interval=timedelta(seconds=SAFETY_S),
            retention=Retention(),
            max_payload=app.max_payload,
            rules=(),
            version=None,
            blocked_after=timedelta(seconds=1),
            cancel_grace=timedelta(seconds=1),
            max_stuck=4 * concurrency,
            worker=name,
        )
    )
