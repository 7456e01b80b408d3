"""
The end of a worker, in one order.

Claim no more, and give back what wasn't started; wait for what runs; tell it to stop;
leave what still runs to its lease; write the last outcomes. Nothing here waits for the
store without a bound, as that may be what is gone.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rowlock._events import worker_logger
from rowlock._events.attempts import AttemptAbandoned
from rowlock._events.worker import WorkerCancelling, WorkerDraining
from rowlock._worker.completed import unwritten
from rowlock._worker.report import dropped, of_attempt

if TYPE_CHECKING:
    from collections.abc import Collection

    from rowlock._worker.buffer import Buffer
    from rowlock._worker.fetch import Fetch
    from rowlock._worker.finish import Finish
    from rowlock._worker.handlers import Handlers
    from rowlock._worker.outage import Outage
    from rowlock._worker.runs import Run, Runs
    from rowlock._worker.settings import Settings

# Of the shutdown's time: until when handlers may end by themselves, and until when
# those that were told to stop may. The rest is for writing what they came to.
WAIT_SHARE = 2 / 3
CANCEL_SHARE = 0.9
# At least so long, whatever is left of it: an outcome that isn't written runs again.
LAST_WRITES_S = 1.0
# How long the death of a child process that was killed may take.
DEATH_S = 1.0


class Shutdown:
    """How one worker ends."""

    def __init__(
        self,
        settings: Settings,
        runs: Runs,
        outage: Outage,
        buffer: Buffer,
        *,
        handlers: Handlers,
        fetch: Fetch,
        finish: Finish,
    ) -> None:
        self._settings = settings
        self._emit = settings.extensions.emit
        self._within_s = settings.shutdown_timeout.total_seconds()
        self._runs = runs
        self._outage = outage
        self._buffer = buffer
        self._handlers = handlers
        self._fetch = fetch
        self._finish = finish
        self._calm = asyncio.Event()

    def on_room(self) -> None:
        """Hear that a handler has ended."""
        if self._runs.live == 0:
            self._calm.set()

    async def drain(self, fetching: asyncio.Task[None], *, since: float) -> int:
        """
        End what a worker does; tell how many claims are left to their lease.

        `since` is the monotonic instant when it was told to, from which its time
        counts.
        """
        running = self._runs.live
        wait_until = since + self._within_s * WAIT_SHARE
        self._emit(
            WorkerDraining(
                worker=self._settings.worker, running=running, wait_s=_left(wait_until)
            )
        )
        self._fetch.stop()
        await self._until_calm(wait_until)
        cancel_until = since + self._within_s * CANCEL_SHARE
        self._tell(running, cancel_until)
        await self._until_calm(cancel_until)
        if self._handlers.kill_children():
            await self._until_calm(time.monotonic() + DEATH_S)
        await self._write_last(fetching, until=since + self._within_s)
        return self._leave()

    def _tell(self, running: int, until: float) -> None:
        """Tell what still runs to stop, save what asked to be left alone."""
        live = [run for run in self._runs if run.ended_at is None]
        if not live:
            return
        told = [run for run in live if run.task.defaults.on_shutdown == "release"]
        self._emit(
            WorkerCancelling(
                worker=self._settings.worker,
                ended=running - len(live),
                handlers=len(told),
                kept=len(live) - len(told),
                wait_s=_left(until),
            )
        )
        for run in told:
            self._handlers.stop(run, "shutdown")

    async def _write_last(self, fetching: asyncio.Task[None], *, until: float) -> None:
        """Write all that can be written in time, beside each other."""
        left = [run for run in self._held() if run.ended_at is None]
        writing = {fetching, asyncio.create_task(self._finish.flush())}
        if left:
            writing.add(asyncio.create_task(self._mark_abandoned(left)))
        written, unwritten = await asyncio.wait(
            writing, timeout=max(_left(until), LAST_WRITES_S)
        )
        for task in written:
            if not task.cancelled() and (error := task.exception()) is not None:
                worker_logger.error("The last writes failed.", exc_info=error)
        for task in unwritten:
            task.cancel()
        if unwritten:
            self._outage.began(TimeoutError())

    async def _mark_abandoned(self, left: Collection[Run]) -> None:
        await self._outage.outlast(
            lambda: self._settings.store.renew(
                [run.key for run in left if run.key in self._runs],
                worker=self._settings.worker,
                lease=self._settings.lease,
                abandoned=True,
            )
        )

    def _leave(self) -> int:
        """Say what is left to its lease; tell how many claims that are."""
        held = self._held()
        for run in held:
            claim = run.claim
            self._emit(
                AttemptAbandoned(
                    **of_attempt(claim),
                    reason=run.reason or "keep",
                )
                if run.ended_at is None
                else dropped(claim, unwritten(run))
            )
        unstarted = self._buffer.held()
        for claim in unstarted:
            self._emit(AttemptAbandoned(**of_attempt(claim), reason="shutdown"))
        return len(held) + len(unstarted)

    def _held(self) -> list[Run]:
        """Give what holds a claim; what timed out beside a blocked loop has none."""
        return [run for run in self._runs if not run.is_settled]

    async def _until_calm(self, until: float) -> None:
        """Wait until no handler runs, at most until a monotonic instant."""
        while self._runs.live and (left := _left(until)) > 0:
            self._calm.clear()
            try:
                async with asyncio.timeout(left):
                    await self._calm.wait()
            except TimeoutError:
                return


def _left(until: float) -> float:
    """Tell how long it is until a monotonic instant, in seconds."""
    return max(until - time.monotonic(), 0.0)
