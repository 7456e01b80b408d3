"""What operators see of a worker: that it lives, what it serves, what is stuck."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import rowlock
from rowlock._answers import unserved
from rowlock._errors import StoreError
from rowlock._events.worker import TasksUnserved
from rowlock._register import task_infos
from rowlock._store import TaskInfo, WorkerInfo

if TYPE_CHECKING:
    from rowlock._worker.outage import Outage
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings

REGISTER_PAUSE_S = 3600.0
# Between two words about which handlers are stuck.
SHOW_PAUSE_S = 1.0
# Workers that are deployed together start within this: none is missing before.
SETTLE_S = 2.0
LONGEST_GOODBYE_S = 1.0


class Presence:
    """One worker in the store's list of workers."""

    def __init__(self, settings: Settings, outage: Outage, runs: Runs) -> None:
        self._settings = settings
        self._store = settings.store
        self._outage = outage
        self._runs = runs
        self._changed = asyncio.Event()
        self._gives_way = False

    async def register(self) -> None:
        """Tell of the worker and its tasks."""
        await self._store.register(self._info(), self._task_infos())

    async def show(self, *, gives_way: bool) -> None:
        """Tell whether it gives way to a suspect."""
        self._gives_way = gives_way
        await self._store.register(self._info(), ())

    def changed(self) -> None:
        """Have it told soon which handlers are stuck."""
        self._changed.set()

    async def show_loop(self) -> None:
        """Tell of stuck handlers until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            # An outage is for others to tell.
            try:
                await self._store.register(self._info(), ())
            except StoreError:
                self._changed.set()
            await asyncio.sleep(SHOW_PAUSE_S)

    async def register_loop(self) -> None:
        """Register hourly until cancelled."""
        # A worker that was suspended for a day is forgotten, and its tasks grow old.
        while True:
            await asyncio.sleep(REGISTER_PAUSE_S)
            await self._outage.outlast(self.register)

    async def tell_unserved(self) -> None:
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
            self._settings.extensions.emit(
                TasksUnserved(
                    worker=self._settings.worker,
                    tasks=tuple(sorted(nobodys)),
                    due=sum(nobodys.values()),
                )
            )

    async def end(self, worker: str | None = None) -> None:
        """Tell that it has stopped, or another of which it knows that it is dead."""
        info = self._info()
        if worker is not None:
            info = replace(info, id=worker)
        try:
            async with asyncio.timeout(LONGEST_GOODBYE_S):
                await self._store.register(info, self._task_infos(), stopped=True)
        except (TimeoutError, StoreError) as error:
            self._outage.began(error)

    def _info(self) -> WorkerInfo:
        return WorkerInfo(
            id=self._settings.worker,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self._settings.version,
            rowlock=rowlock.__version__,
            tasks=tuple(sorted(self._settings.tasks)),
            queues=self._settings.queues,
            concurrency=self._settings.concurrency,
            lease=self._settings.lease,
            gives_way=self._gives_way,
            stuck=tuple(run.claim.job_id for run in self._runs.stuck),
        )

    def _task_infos(self) -> tuple[TaskInfo, ...]:
        return task_infos(self._settings.tasks.values(), self._settings.max_payload)
