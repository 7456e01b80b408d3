"""The real worker, with all that it does on the one loop of the simulation."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Generator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, cast

from rowlock import App, Backoff
from rowlock._attempt import Attempt, current_attempt
from rowlock._clock import Clock as AnyClock
from rowlock._events import Event
from rowlock._extensions import Extensions
from rowlock._served import Served
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
CANCEL_GRACE_S = 1.0

app = App("sqlite://")


@app.task(backoff=Backoff.fixed(0.5))
async def work() -> None:
    await perform()


@app.task(backoff=Backoff.fixed(0.5), on_shutdown="keep")
async def keep() -> None:
    await perform()


@app.task(backoff=Backoff.fixed(0.5))
def plain() -> None:
    process = IN.get()
    assert isinstance(process, Place)
    process.perform_plainly(current_attempt())


async def perform() -> None:
    process = IN.get()
    assert isinstance(process, Place)
    await process.perform(current_attempt())


class Begun:
    """The rest of a coroutine that awaits something."""

    def __init__(self, rest: Coroutine[Any, Any, float], awaited: object) -> None:
        self._rest = rest
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, float]:
        awaited, rest = self._awaited, self._rest
        while True:
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - what was awaited has failed
                go_on = partial(rest.throw, error)
            else:
                go_on = partial(rest.send, None)
            try:
                awaited = go_on()
            except StopIteration as over:
                return cast("float", over.value)


class SimulatedWatch(Watch):
    """
    The watching thread's turns, as tasks of the worker's loop.

    Without that of the watchdog: on one loop, none can watch the other.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_live = False
        self._under_way: set[asyncio.Task[None]] = set()

    @property
    def is_live(self) -> bool:
        return self._is_live

    def start(self, turns: Sequence[Turn]) -> None:
        self._main = self._loop = asyncio.get_running_loop()
        self._is_live = True
        for turn in turns:
            if not isinstance(getattr(turn, "__self__", None), Watchdog):
                self._loop.call_soon(self._go_round, turn)

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
        self._is_live = False
        for task in self._under_way:
            task.cancel()

    def _go_round(self, turn: Turn) -> None:
        """Take a turn, with a task for what isn't over at once: few have much to do."""
        if self._stopping.is_set():
            return
        taking = self._take(turn)
        try:
            awaited = taking.send(None)
        except StopIteration as over:
            self._later(over.value, turn)
            return
        rest = self._finish(turn, Begun(taking, awaited))
        self._under_way.add(asyncio.get_running_loop().create_task(rest))

    async def _finish(self, turn: Turn, begun: Begun) -> None:
        self._later(await begun, turn)
        # Not in a callback, which would be a step of its own.
        self._under_way.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _later(self, pause_s: float, turn: Turn) -> None:
        asyncio.get_running_loop().call_later(pause_s, self._go_round, turn)


class SimulatedWorker(Worker):
    """A worker that starts no thread."""

    _new_watch = SimulatedWatch


class Place:
    """What a worker finds in its process: replaced by the world's own."""

    async def perform(self, attempt: Attempt) -> None:
        """Do what the handler of an attempt does."""
        raise NotImplementedError

    def perform_plainly(self, attempt: Attempt) -> None:
        """Do it in a thread."""
        raise NotImplementedError


def new_worker(
    store: Store,
    clock: AnyClock,
    *,
    name: str,
    served: Served,
    retention: Retention,
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
            queues=served.queues,
            concurrency=served.concurrency,
            limits=served.limits,
            weights=served.weights,
            lease=timedelta(seconds=LEASE_S),
            timeout=app.timeout,
            shutdown_timeout=timedelta(seconds=SHUTDOWN_S),
            safety_interval=timedelta(seconds=SAFETY_S),
            poll_interval=timedelta(seconds=2),
            retention=retention,
            max_payload=app.max_payload,
            rules=(),
            version=None,
            blocked_after=timedelta(seconds=1),
            cancel_grace=timedelta(seconds=CANCEL_GRACE_S),
            max_stuck=4 * served.concurrency,
            worker=name,
        )
    )
