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
import socket
import time
from typing import TYPE_CHECKING, Self

import rowlock
from rowlock._answers import unserved
from rowlock._errors import ConfigError, StoreError, UsageError
from rowlock._events import worker_logger
from rowlock._events.worker import (
    ClaimLapsed,
    TasksUnserved,
    WorkerDraining,
    WorkerStarted,
    WorkerStopped,
)
from rowlock._register import task_infos
from rowlock._store import TaskInfo, WorkerInfo
from rowlock._worker.fetch import Fetch
from rowlock._worker.finish import Finish
from rowlock._worker.handlers import Handlers
from rowlock._worker.outage import Outage
from rowlock._worker.renew import Renew
from rowlock._worker.replay import Replay
from rowlock._worker.runs import Runs
from rowlock._worker.save import Save
from rowlock._worker.upkeep import Upkeep

if TYPE_CHECKING:
    from types import TracebackType

    from rowlock._store import Renewal
    from rowlock._worker.settings import Settings

# Of the shutdown's time: until when handlers may end by themselves, and until when
# cancelled ones may. The rest is for writing what they came to.
WAIT_SHARE = 2 / 3
CANCEL_SHARE = 0.9
# At least so long, whatever is left of it: an outcome that isn't written runs again.
LAST_WRITES_S = 1.0

REGISTER_PAUSE_S = 3600.0
# Workers that are deployed together start within this: none is missing before.
SETTLE_S = 2.0


class Worker:
    """
    A worker inside this process; make one with `App.worker`.

    It runs jobs for the length of `async with`, once. `stop` begins its shutdown
    sooner, from its own loop, and `id` is what the rows name it by.

        >>> import asyncio
        >>> from rowlock import App, Worker
        >>> app = App("sqlite://")
        >>> @app.task
        ... def greet(name: str) -> None: ...
        >>> async def work(worker: Worker) -> None:
        ...     async with worker:
        ...         await app.wait(await greet.enqueue("Ada"), timeout=10)
        >>> asyncio.run(work(app.worker()))
    """

    def __init__(self, settings: Settings) -> None:
        self.id: str = settings.worker
        self._settings = settings
        self._store = settings.store
        self._emit = settings.extensions.emit
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
        await self._store.open()
        await self._register()
        self._renew.start()
        self._announce()
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self._finish.loop())
                keeping = [
                    group.create_task(self._upkeep.recover_loop()),
                    group.create_task(self._upkeep.expire_loop()),
                    group.create_task(self._upkeep.prune_loop()),
                    group.create_task(self._save.loop()),
                    group.create_task(self._register_loop()),
                    group.create_task(self._tell_unserved()),
                ]
                replaying = [group.create_task(loop()) for loop in self._replay.loops()]
                fetching = group.create_task(self._fetch.loop())
                if started is not None and not started.done():
                    started.set_result(None)
                await self._stopping.wait()
                for task in replaying:
                    task.cancel()
                abandoned = await self._drain(fetching)
                for task in (*keeping, writing):
                    task.cancel()
        finally:
            # Where a loop has failed, handlers still run; after a drain none does.
            for run in self._runs:
                self._handlers.stop(run, "shutdown")
            self._handlers.close()
            self._replay.close()
            await self._renew.stop()
        await self._say_goodbye(abandoned)
        return abandoned

    async def _register(self) -> None:
        await self._store.register(self._info(), self._task_infos())

    async def _show(self) -> None:
        await self._store.register(self._info(), ())

    async def _tell_unserved(self) -> None:
        """Warn, once, of due jobs that nobody would ever run."""
        await asyncio.sleep(SETTLE_S)
        try:
            due = await self._store.figures.due()
            workers = (await self._store.figures.overview()).workers
        except StoreError:
            # It is no outage, nor worth a second try, where more jobs are due than can
            # be counted in time.
            return
        if nobodys := unserved(due, workers):
            self._emit(
                TasksUnserved(
                    worker=self.id,
                    tasks=tuple(sorted(nobodys)),
                    due=sum(nobodys.values()),
                )
            )

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
        if not self._settings.tasks:
            msg = "This app has no tasks, so there is nothing a worker could run."
            raise ConfigError(msg)

    def _check_unused(self) -> None:
        begun = self._running
        # Its own task, which is to begin, checks too.
        if self._is_used or (begun and begun is not asyncio.current_task()):
            msg = "A worker works once: make another with app.worker()."
            raise UsageError(msg)

    def _build(self) -> None:
        settings = self._settings
        self._outage = Outage(settings)
        self._runs = Runs(on_room=self._on_room)
        self._save = Save(settings, self._outage)
        self._finish = Finish(settings, self._runs, self._outage, self._save)
        self._handlers = Handlers(settings, self._runs, self._finish, self._save)
        self._renew = Renew(
            settings,
            self._runs,
            on_renewal=self._on_renewal,
            on_error=self._outage.began,
        )
        self._fetch = Fetch(
            settings,
            self._runs,
            self._outage,
            start=self._handlers.start,
            renew=self._renew.now,
            flush=self._finish.flush,
            show=self._show,
        )
        self._upkeep = Upkeep(settings, self._outage)
        self._replay = Replay(settings, self._outage)

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
            self._emit(
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
        self._emit(WorkerDraining(worker=self.id, running=self._runs.live))
        self._fetch.stop()
        await self._until_calm(
            began + self._settings.shutdown_timeout.total_seconds() * WAIT_SHARE
        )
        for run in self._runs:
            self._handlers.stop(run, "shutdown")
        await self._until_calm(
            began + self._settings.shutdown_timeout.total_seconds() * CANCEL_SHARE
        )
        left = [run for run in self._runs if run.ended_at is None]
        for run in left:
            self._handlers.tell_stuck(run)
        try:
            async with asyncio.timeout_at(
                asyncio.get_running_loop().time()
                + max(
                    began
                    + self._settings.shutdown_timeout.total_seconds()
                    - time.monotonic(),
                    LAST_WRITES_S,
                )
            ):
                await fetching
                await self._finish.flush()
                if left:
                    await self._store.renew(
                        [run.key for run in left],
                        worker=self.id,
                        lease=self._settings.lease,
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
                await self._store.register(
                    self._info(), self._task_infos(), stopped=True
                )
        except (TimeoutError, StoreError) as error:
            self._outage.began(error)
        self._emit(WorkerStopped(worker=self.id, abandoned=abandoned))

    def _announce(self) -> None:
        self._emit(
            WorkerStarted(
                worker=self.id,
                store=self._store.url,
                tasks=tuple(sorted(self._settings.tasks)),
                queues=self._settings.queues,
                concurrency=self._settings.concurrency,
                lease_s=self._settings.lease_s,
                timeout_s=self._settings.timeout,
            )
        )

    def _info(self) -> WorkerInfo:
        return WorkerInfo(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self._settings.version,
            rowlock=rowlock.__version__,
            tasks=tuple(sorted(self._settings.tasks)),
            queues=self._settings.queues,
            concurrency=self._settings.concurrency,
            lease=self._settings.lease,
            gives_way=self._fetch.gives_way,
        )

    def _task_infos(self) -> tuple[TaskInfo, ...]:
        return task_infos(self._settings.tasks.values(), self._settings.max_payload)
