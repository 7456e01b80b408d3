"""
Writing what handlers say while they run: checkpoints at once, progress now and then.

Of progress only the last word of each second is written, and what is unwritten at the
end goes before the outcome. Handlers call from any thread; all is written from the
worker's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Collection, Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import TYPE_CHECKING

from rowlock._errors import PayloadError, StoreError, StoreUnavailable, UsageError
from rowlock._events import worker_logger
from rowlock._store import Fate
from rowlock._worker import execute

if TYPE_CHECKING:
    from rowlock._job import ClaimKey, NewJob, Outcome
    from rowlock._store import Lent
    from rowlock._worker.outage import Outage
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings

PAUSE_S = 1.0
# For how long an outcome waits for the progress before it.
LONGEST_FLUSH_S = 2.0


class Save:
    """The save loop of one worker, and the `Desk` of its attempts."""

    def __init__(self, settings: Settings, outage: Outage, runs: Runs) -> None:
        self._settings = settings
        self._store = settings.store
        self._runs = runs
        self._lease_s = settings.lease_s
        self._outage = outage
        self._loop = asyncio.get_running_loop()
        self._unwritten: dict[ClaimKey, str] = {}
        self._under_way: dict[ClaimKey, str] = {}
        self._lock = threading.Lock()
        self._more = asyncio.Event()
        # One write of progress at a time, or an older word might come last.
        self._writing = asyncio.Lock()

    async def checkpoint(self, key: ClaimKey, state: str) -> bool:
        """Write the state of a claim, on whichever loop; False: it is lost."""
        call = self._checkpoint(key, state)
        if asyncio.get_running_loop() is self._loop:
            return await call
        future = self._hand_over(call)
        return False if future is None else await asyncio.wrap_future(future)

    def checkpoint_sync(self, key: ClaimKey, state: str) -> bool:
        """Write the state of a claim, from a thread."""
        future = self._hand_over(self._checkpoint(key, state))
        try:
            return False if future is None else future.result()
        except CancelledError:  # the worker has ended meanwhile
            return False

    def progress(self, key: ClaimKey, progress: str) -> None:
        """Write it soon; what was said before and isn't written is forgotten."""
        with self._lock:
            is_first = not self._unwritten
            self._unwritten[key] = progress
        if is_first:
            with contextlib.suppress(RuntimeError):  # the worker has ended
                self._loop.call_soon_threadsafe(self._more.set)

    def lent(self, call: str) -> Lent:
        """Give what is done on a connection that a handler lends."""
        del call
        return self._store.lent

    def success(
        self, key: ClaimKey, result: object, jobs: tuple[NewJob, ...]
    ) -> tuple[Outcome, str | None]:
        """Make the outcome, with what follows it, and take the unwritten progress."""
        try:
            outcome = execute.succeeded(
                key, result, jobs, max_payload=self._settings.max_payload
            )
        except PayloadError as error:
            # What is returned comes too late to be mended, and is left out; not this.
            msg = (
                "The result given to complete() can't be taken, and nothing was"
                f" recorded: {error} Leave it out, or give what JSON has."
            )
            raise PayloadError(msg, path=error.path) from error
        # One that is over for its worker has lost its claim, as the store will say.
        if (run := self._runs.get(key)) is not None:
            outcome = self._settings.extensions.followed(run.claim, outcome)
        with self._lock:
            # What is under way may have to wait for this very transaction.
            return outcome, self._unwritten.pop(key, None) or self._under_way.get(key)

    async def loop(self) -> None:
        """Write progress until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            await self._write_all(None)
            await asyncio.sleep(PAUSE_S)

    async def flush(self, keys: Collection[ClaimKey]) -> None:
        """Write what is unwritten of these claims, as their outcomes come next."""
        if not self._unwritten and not self._under_way:
            return
        if any(key in self._unwritten or key in self._under_way for key in keys):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_FLUSH_S):
                    await self._write_all(keys)

    async def _write_all(self, keys: Collection[ClaimKey] | None) -> None:
        async with self._writing:
            with self._lock:
                self._under_way = self._unwritten
                if keys is not None:
                    self._under_way = {
                        key: self._unwritten[key]
                        for key in keys
                        if key in self._unwritten
                    }
                self._unwritten = {
                    key: progress
                    for key, progress in self._unwritten.items()
                    if key not in self._under_way
                }
            try:
                await asyncio.gather(
                    *(self._save(*each) for each in self._under_way.items())
                )
            finally:
                self._under_way = {}

    async def _save(self, key: ClaimKey, progress: str) -> None:
        try:
            await self._store.save(key, progress=progress)
        except StoreError:
            # Perhaps its handler's transaction has the row. A newer word tells more.
            if key in self._runs:
                with self._lock:
                    self._unwritten.setdefault(key, progress)
                self._more.set()
        except Exception:  # noqa: BLE001 - nothing ends for want of progress
            worker_logger.exception(
                "The progress of job %d can't be written.", key.job_id
            )

    async def _checkpoint(self, key: ClaimKey, state: str) -> bool:
        run = self._runs.get(key)
        is_lent = run is not None and run.is_lent
        return await self._outage.outlast(
            partial(self._save_beside if is_lent else self._save_state, key, state),
            until=time.monotonic() + self._lease_s,
        )

    async def _save_state(self, key: ClaimKey, state: str) -> bool:
        return await self._store.save(key, state=state)

    async def _save_beside(self, key: ClaimKey, state: str) -> bool:
        """Write a state where a transaction of the handler's may have the row."""
        try:
            return await self._save_state(key, state)
        except StoreUnavailable:
            (fate,) = await self._store.lent.settled([key])
            if fate is not Fate.OPEN:
                raise
            # It would wait for whoever waits for it.
            msg = (
                f"checkpoint() can't write while a transaction holds job {key.job_id}:"
                " save before hold(), or after its transaction."
            )
            raise UsageError(msg) from None

    def _hand_over(self, call: Coroutine[object, None, bool]) -> Future[bool] | None:
        try:
            return asyncio.run_coroutine_threadsafe(call, self._loop)
        except RuntimeError:  # the loop is closed: the worker gave this one up
            call.close()
            return None
