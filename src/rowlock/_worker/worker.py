"""
The worker: its loops, and their one order of stopping.

Stop claiming; give back what was claimed and not started; wait for what runs; cancel
what still runs; write the last outcomes; leave the rest to its lease. Renewal goes on
until the last job has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Self

import rowlock
from rowlock._errors import ConfigError, StoreError, UsageError
from rowlock._events import (
    ClaimLapsed,
    WorkerDraining,
    WorkerStarted,
    WorkerStopped,
    worker_logger,
)
from rowlock._options import check_count, check_names
from rowlock._store import TaskInfo, WorkerInfo
from rowlock._worker.fetch import Fetch
from rowlock._worker.finish import Finish
from rowlock._worker.handlers import Handlers
from rowlock._worker.outage import Outage
from rowlock._worker.renew import Renew
from rowlock._worker.runs import Runs
from rowlock._worker.upkeep import Upkeep

if TYPE_CHECKING:
    from types import TracebackType

    from rowlock._app import App
    from rowlock._store import Renewal

# Of the shutdown's time: until when handlers may end by themselves, and until when
# cancelled ones may. The rest is for writing what they came to.
WAIT_SHARE = 2 / 3
CANCEL_SHARE = 0.9

REGISTER_PAUSE_S = 3600.0


class Worker:
    """One worker; make it with `App.worker`."""

    def __init__(
        self,
        app: App,
        *,
        concurrency: int,
        queues: Iterable[str] | None,
        lease: timedelta,
        shutdown_timeout: timedelta,
    ) -> None:
        self.id = f"w-{secrets.token_hex(8)}"
        self._app = app
        self._concurrency = check_count(concurrency, "concurrency=")
        self._queues = None if queues is None else check_names(queues, "queues=")
        self._lease = lease
        self._shutdown_s = shutdown_timeout.total_seconds()
        self._stopping = asyncio.Event()
        self._calm = asyncio.Event()
        self._running: asyncio.Task[int] | None = None
        self._is_used = False

    async def __aenter__(self) -> Self:
        self._check_unused()
        started = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self.run(started))
        try:
            await asyncio.wait(
                {started, self._running}, return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            # There will be no end of the block to stop it; and what it has to say of
            # its own must not pass for the cancellation.
            self.stop()
            with contextlib.suppress(Exception):
                await self._running
            raise
        if self._running.done():
            self._running.result()
        # Raised where the block ends, which for a server may be weeks later.
        self._running.add_done_callback(self._tell_breakdown)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if self._running is not None:
            await self._running

    def stop(self) -> None:
        """Begin the shutdown; `run` returns when it is over."""
        self._stopping.set()

    async def run(self, started: asyncio.Future[None] | None = None) -> int:
        """
        Work until stopped; tell how many handlers were abandoned.

        Raises:
            ConfigError: the app has no task.
            StoreError: the store can't be opened.
            UsageError: it has worked before.
        """
        self.check()
        self._is_used = True
        self._build()
        await self._app.store.open()
        await self._register()
        self._renew.start()
        self._announce()
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self._finish.loop())
                keeping = [
                    group.create_task(self._upkeep.recover_loop()),
                    group.create_task(self._upkeep.expire_loop()),
                    group.create_task(self._upkeep.prune_loop(self._app.retention)),
                    group.create_task(self._register_loop()),
                ]
                fetching = group.create_task(self._fetch.loop())
                if started is not None and not started.done():
                    started.set_result(None)
                await self._stopping.wait()
                abandoned = await self._drain(fetching)
                for task in (*keeping, writing):
                    task.cancel()
        finally:
            # Where a loop has failed, handlers still run; after a drain none does.
            for run in self._runs:
                self._handlers.stop(run, "shutdown")
            self._handlers.close()
            await self._renew.stop()
        await self._say_goodbye(abandoned)
        return abandoned

    async def _register(self) -> None:
        await self._app.store.register(self._info(), self._task_infos())

    async def _register_loop(self) -> None:
        # A worker that was suspended for a day is forgotten, and its tasks grow old.
        while True:
            await asyncio.sleep(REGISTER_PAUSE_S)
            await self._outage.outlast(self._register)

    def check(self) -> None:
        """
        Refuse to start where it can't work.

        Raises:
            ConfigError: the app has no task.
            UsageError: it has worked before.
        """
        self._check_unused()
        if not self._app.tasks:
            msg = "This app has no tasks, so there is nothing a worker could run."
            raise ConfigError(msg)

    def _check_unused(self) -> None:
        if self._is_used:
            msg = "A worker works once: make another with app.worker()."
            raise UsageError(msg)

    def _build(self) -> None:
        app, store, events = self._app, self._app.store, self._app.events
        self._outage = Outage(self.id, events)
        self._runs = Runs(on_room=self._on_room)
        self._finish = Finish(
            store, self._runs, self._outage, events, clock=app.clock, lease=self._lease
        )
        self._handlers = Handlers(app, self._runs, self._finish, self._lease)
        self._renew = Renew(
            store,
            self._runs,
            worker=self.id,
            lease=self._lease,
            on_renewal=self._on_renewal,
            on_error=self._outage.began,
        )
        self._fetch = Fetch(
            store,
            self._runs,
            self._outage,
            start=self._handlers.start,
            renew=self._renew.now,
            worker=self.id,
            lease=self._lease,
            tasks=frozenset(app.tasks),
            queues=self._queues,
            concurrency=self._concurrency,
        )
        self._upkeep = Upkeep(
            store, self._outage, events, worker=self.id, lease=self._lease
        )

    def _on_room(self) -> None:
        self._fetch.on_room()
        if self._runs.live == 0:
            self._calm.set()

    def _on_renewal(self, renewal: Renewal) -> None:
        self._outage.ended()
        for key in renewal.lost:
            run = self._runs.get(key)
            # Ended: its outcome is on the way, and the answer to that will tell.
            if run is None or run.ended_at is not None:
                continue
            self._app.events.emit(
                ClaimLapsed(
                    job_id=key.job_id,
                    task=run.claim.task,
                    queue=run.claim.queue,
                    attempt=run.claim.attempts,
                    claim=key.claim,
                )
            )
            self._handlers.stop(run, "lost")
        for key in renewal.cancelled:
            run = self._runs.get(key)
            if run is not None:
                self._handlers.stop(run, "cancel")

    async def _drain(self, fetching: asyncio.Task[None]) -> int:
        began = time.monotonic()
        self._app.events.emit(WorkerDraining(worker=self.id, running=self._runs.live))
        self._fetch.stop()
        await self._until_calm(began + self._shutdown_s * WAIT_SHARE)
        for run in self._runs:
            self._handlers.stop(run, "shutdown")
        await self._until_calm(began + self._shutdown_s * CANCEL_SHARE)
        left = [run for run in self._runs if run.ended_at is None]
        for run in left:
            self._handlers.tell_stuck(run)
        try:
            async with asyncio.timeout_at(
                asyncio.get_running_loop().time()
                + max(began + self._shutdown_s - time.monotonic(), 0.1)
            ):
                await fetching
                await self._finish.flush()
                if left:
                    await self._app.store.renew(
                        [run.key for run in left],
                        worker=self.id,
                        lease=self._lease,
                        abandoned=True,
                    )
        except (TimeoutError, StoreError) as error:
            self._outage.began(error)
            fetching.cancel()
        return len(left)

    async def _until_calm(self, until: float) -> None:
        """Wait until no handler runs, at most until a monotonic instant."""
        while self._runs.live and (left := until - time.monotonic()) > 0:
            self._calm.clear()
            try:
                async with asyncio.timeout(left):
                    await self._calm.wait()
            except TimeoutError:
                return

    def _tell_breakdown(self, running: asyncio.Task[int]) -> None:
        if not running.cancelled() and (error := running.exception()) is not None:
            worker_logger.critical(
                "The worker %s has broken down, and runs no more jobs.",
                self.id,
                exc_info=error,
            )

    async def _say_goodbye(self, abandoned: int) -> None:
        try:
            async with asyncio.timeout(1):
                await self._app.store.register(
                    self._info(), self._task_infos(), stopped=True
                )
        except (TimeoutError, StoreError) as error:
            self._outage.began(error)
        self._app.events.emit(WorkerStopped(worker=self.id, abandoned=abandoned))

    def _announce(self) -> None:
        self._app.events.emit(
            WorkerStarted(
                worker=self.id,
                store=self._app.url,
                tasks=tuple(sorted(self._app.tasks)),
                queues=self._queues,
                concurrency=self._concurrency,
                lease_s=self._lease.total_seconds(),
                timeout_s=self._app.timeout,
            )
        )

    def _info(self) -> WorkerInfo:
        return WorkerInfo(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=rowlock.__version__,
            tasks=tuple(sorted(self._app.tasks)),
            queues=self._queues,
            concurrency=self._concurrency,
            lease=self._lease,
        )

    def _task_infos(self) -> list[TaskInfo]:
        return [
            TaskInfo(
                name=task.name,
                queue=task.defaults.queue,
                defaults={
                    "priority": task.defaults.priority,
                    "max_attempts": task.defaults.max_attempts,
                    "timeout": task.defaults.timeout,
                    # For whoever enqueues without this app.
                    "max_payload": self._app.max_payload,
                },
            )
            for task in self._app.tasks.values()
        ]
