"""
The worker: its loops, from its start to its goodbye.

`shutdown` has the order of stopping. Renewal goes on until the last job has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

from rowlock._errors import ConfigError, UsageError
from rowlock._events.worker import WorkerOverrun, WorkerStarted, WorkerStopped
from rowlock._worker.buffer import Buffer
from rowlock._worker.cancels import Cancels
from rowlock._worker.fetch import Fetch
from rowlock._worker.finish import Finish
from rowlock._worker.handlers import Handlers
from rowlock._worker.health import Health, Signs, judge
from rowlock._worker.outage import Outage
from rowlock._worker.places import check as check_places
from rowlock._worker.presence import Presence
from rowlock._worker.relay import Relay
from rowlock._worker.renew import Renew
from rowlock._worker.replay import Replay
from rowlock._worker.report import tell_breakdown
from rowlock._worker.runs import Runs
from rowlock._worker.save import Save
from rowlock._worker.shutdown import Shutdown
from rowlock._worker.upkeep import Upkeep
from rowlock._worker.watch import Watch
from rowlock._worker.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from rowlock._worker.settings import Settings

# How long the store may take to hear that what runs is abandoned.
LAST_WORDS_S = 1.0


class Worker:
    """
    A worker inside this process; make one with `App.worker`.

    It runs jobs for the length of `async with`, once. Leaving the block shuts it down
    as SIGTERM does `rowlock worker`, also where the task around it is cancelled; a
    second cancellation ends it at once. `stop` begins its shutdown sooner, from its
    own loop, and `id` is what the rows name it by.

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

    # A simulation has no thread for it.
    _new_watch: ClassVar[type[Watch]] = Watch

    def __init__(self, settings: Settings) -> None:
        self.id: str = settings.worker
        self._settings = settings
        self._store = settings.store
        self._emit = settings.extensions.emit
        self._stopping = asyncio.Event()
        self._told_at = 0.0
        self._running: asyncio.Task[int] | None = None
        self._is_used = False
        self._is_started = False
        self._is_overrun = False
        self._ends_when_overrun = False

    async def __aenter__(self) -> Self:
        self._check_unused()
        started = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._work(started))
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
        self._running.add_done_callback(partial(tell_breakdown, self.id))
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
        self._stop_since(time.monotonic())

    def health(self) -> Health:
        """
        Tell how this worker is, for a probe; from any thread, and asking no store.

            >>> from rowlock import App
            >>> App("sqlite://").worker().health().reasons
            ("it hasn't started yet",)
        """
        settings = self._settings
        signs = Signs(
            worker=self.id,
            max_stuck=settings.max_stuck,
            concurrency=settings.concurrency,
            lease_s=settings.lease_s,
            is_stopping=self._stopping.is_set(),
        )
        if not self._is_started:
            return judge(signs)
        return judge(
            replace(
                signs,
                is_started=True,
                is_renewing=self._watch.is_live,
                running=self._runs.live,
                stuck=len(self._runs.stuck),
                loop_blocked_s=self._watchdog.blocked_s,
                loop_blocks=self._watchdog.blocks,
                store_away_s=self._outage.away_s,
                fetch_late_s=self._fetch.late_s,
            )
        )

    def _stop_since(self, told_at: float) -> None:
        """Begin the shutdown, whose time has begun at a monotonic instant."""
        if not self._stopping.is_set():
            self._told_at = told_at
            self._stopping.set()

    def _abandon(self) -> None:
        """Mark what is held as abandoned, from any thread: the process ends now."""
        if self._is_used:
            self._renew.abandon(LAST_WORDS_S)

    async def _recover(self, worker: str) -> int:
        """Recover what a worker held whose death its supervisor has seen."""
        recovered = await self._upkeep.recover_dead(worker)
        await self._presence.end(worker)
        return recovered

    async def run(self, *, ends_when_overrun: bool = False) -> int:
        """
        Work until stopped; tell how many claims were left to their lease.

        A cancellation stops it as `stop` does, a second one at once.

        It ends by itself where too many are stuck, if whoever runs it replaces it.

        Raises:
            ConfigError: the app has no task.
            StoreError: the store can't be opened.
            UsageError: it has worked before.
        """
        self.check()
        working = asyncio.create_task(self._work(ends_when_overrun=ends_when_overrun))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            self.stop()
            await working
            raise

    async def _work(
        self,
        started: asyncio.Future[None] | None = None,
        *,
        ends_when_overrun: bool = False,
    ) -> int:
        self.check()
        self._ends_when_overrun = ends_when_overrun
        self._is_used = True
        self._build()
        if not await self._has_begun():
            return 0
        began = time.monotonic()
        abandoned = await self._serve(started)
        await self._presence.end()
        ended = time.monotonic()
        self._emit(
            WorkerStopped(
                worker=self.id,
                abandoned=abandoned,
                took_s=ended - self._told_at,
                ran_s=ended - began,
            )
        )
        if not self._is_overrun:
            return abandoned
        # Nobody has asked it to end, so whoever runs it is to start another.
        return abandoned + max(len(self._runs.stuck), int(self._ends_when_overrun))

    async def _serve(self, started: asyncio.Future[None] | None) -> int:
        """Run the loops until stopped; tell how many claims were left."""
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self._finish.loop())
                keeping = [group.create_task(each) for each in self._keeping()]
                replaying = [group.create_task(loop()) for loop in self._replay.loops()]
                fetching = group.create_task(self._fetch.loop())
                self._is_started = True
                if started is not None and not started.done():
                    started.set_result(None)
                await self._stopping.wait()
                for task in replaying:
                    task.cancel()
                abandoned = await self._shutdown.drain(fetching, since=self._told_at)
                for task in (*keeping, writing):
                    task.cancel()
        except BaseException:
            # A loop has failed, or nobody waits for the drain: handlers still run.
            for run in self._runs:
                self._handlers.stop(run, "shutdown")
            raise
        finally:
            await self._handlers.end_children()
            self._handlers.close()
            self._replay.close()
            await self._watch.stop()
        return abandoned

    async def _has_begun(self) -> bool:
        """Begin, unless it is told to stop before."""
        beginning = asyncio.create_task(self._begin())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait(
                {beginning, stopping}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopping.cancel()
            if not beginning.done():
                beginning.cancel()
                await asyncio.wait({beginning})
        if beginning.cancelled():
            return False
        beginning.result()
        return True

    async def _begin(self) -> None:
        try:
            await self._handlers.warm()
            await self._store.open()
            await self._presence.register()
            parts = (self._renew, self._buffer, self._cancels, self._watchdog)
            self._watch.start([part.turn for part in parts])
        except BaseException:
            await self._handlers.end_children()
            raise
        self._announce()

    def _keeping(self) -> list[Coroutine[None, None, None]]:
        """Give what goes on until the last outcome is written."""
        return [
            self._upkeep.recover_loop(),
            self._upkeep.expire_loop(),
            self._upkeep.prune_loop(),
            self._save.loop(),
            self._presence.register_loop(),
            self._presence.show_loop(),
            self._presence.tell_unserved(),
        ]

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
        check_places(t for t in self._settings.tasks.values() if t.defaults.executor)

    def _check_unused(self) -> None:
        begun = self._running
        # Its own task, which is to begin, checks too.
        if self._is_used or (begun and begun is not asyncio.current_task()):
            msg = "A worker works once: make another with app.worker()."
            raise UsageError(msg)

    def _build(self) -> None:
        settings = self._settings
        self._outage = Outage(settings)
        self._runs = Runs(
            on_room=self._on_room,
            on_stuck=self._on_stuck,
            max_stuck=settings.max_stuck,
        )
        self._presence = Presence(settings, self._outage, self._runs)
        self._save = Save(settings, self._outage, self._runs)
        self._finish = Finish(settings, self._runs, self._outage, self._save)
        self._handlers = Handlers(settings, self._runs, self._finish, self._save)
        self._buffer = Buffer(
            settings, self._runs, blocked_s=lambda: self._watchdog.blocked_s
        )
        self._build_watch()
        self._fetch = Fetch(
            settings,
            self._runs,
            self._outage,
            self._buffer,
            start=self._handlers.start,
            renew=self._renew.now,
            flush=self._finish.flush,
            show=self._presence.show,
        )
        self._shutdown = Shutdown(
            settings,
            self._runs,
            self._outage,
            self._buffer,
            handlers=self._handlers,
            fetch=self._fetch,
            finish=self._finish,
        )
        self._upkeep = Upkeep(settings, self._outage, self._runs, self._buffer)
        self._replay = Replay(settings, self._outage)

    def _build_watch(self) -> None:
        settings = self._settings
        self._watch = self._new_watch()
        relay = Relay(settings, self._runs, self._outage, self._handlers, self._watch)
        self._renew = Renew(
            settings,
            self._runs,
            self._buffer,
            self._watch,
            on_renewal=relay.renewal,
            on_error=self._outage.began,
        )
        self._cancels = Cancels(settings, self._runs, on_cancels=relay.cancels)
        self._watchdog = Watchdog(settings, self._runs, self._watch)

    def _on_room(self, queue: str) -> None:
        self._fetch.on_room(queue)
        self._shutdown.on_room()

    def _on_stuck(self) -> None:
        self._presence.changed()
        stuck, most = len(self._runs.stuck), self._settings.max_stuck
        if stuck <= most or self._is_overrun:
            return
        self._is_overrun = True
        self._emit(WorkerOverrun(worker=self.id, stuck=stuck, max_stuck=most))
        if self._ends_when_overrun:
            self.stop()

    def _announce(self) -> None:
        self._emit(
            WorkerStarted(
                worker=self.id,
                store=self._store.url,
                tasks=tuple(sorted(self._settings.tasks)),
                queues=self._settings.queues,
                limits=self._settings.limits,
                weights=self._settings.weights,
                concurrency=self._settings.concurrency,
                lease_s=self._settings.lease_s,
                timeout_s=self._settings.timeout,
            )
        )
