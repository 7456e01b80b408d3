"""
Watching whether the worker's loop still turns.

An async handler that blocks it (`time.sleep`, a long computation) stops all others,
timeouts included. What blocks it is named in the log while it does, by the stack of the
loop's thread; and what has run past its timeout meanwhile is written as that.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rowlock._attempt import attempt_in
from rowlock._errors import StoreError
from rowlock._events.worker import LoopBlocked, LoopFreed
from rowlock._worker import execute
from rowlock._worker.report import told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from rowlock._attempt import Attempt
    from rowlock._job import ClaimKey, Outcome
    from rowlock._worker.runs import Run, Runs
    from rowlock._worker.settings import Settings
    from rowlock._worker.watch import Watch

PAUSE_S = 0.5
# While the loop owes an answer.
CLOSE_LOOK_S = 0.1
MOST_FRAMES = 30
# A backoff, or what follows, is the user's code, and may hang.
LONGEST_THOUGHT_S = 5.0
DEFAULT_DELAY = timedelta(seconds=1)

# Frames that are the same in every stack: asyncio's and the worker's own.
_OURS = (str(Path(asyncio.__file__).parent), str(Path(__file__).parent))


class Watchdog:
    """
    Watches the loop of one worker.

    `blocks` counts how often it was blocked for longer than it may.
    """

    def __init__(self, settings: Settings, runs: Runs, watch: Watch) -> None:
        self._settings = settings
        self._extensions = settings.extensions
        self._runs = runs
        self._watch = watch
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._asked_at: float | None = None
        self._blocked: LoopBlocked | None = None
        # Of these two, which the loop changes as well.
        self._lock = threading.Lock()
        self._refused: set[ClaimKey] = set()
        self.blocks = 0

    @property
    def blocked_s(self) -> float:
        """For how long the loop hasn't turned, in seconds; any thread may ask."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None else time.monotonic() - asked_at

    async def turn(self) -> float:
        """Look once; tell how long to wait before the next time."""
        asked_at = self._asked_at
        if asked_at is None:
            self._asked_at = time.monotonic()
            self._watch.tell(self._answer)
            return PAUSE_S
        if self.blocked_s >= self._settings.blocked_after_s:
            if self._blocked is None:
                self._report(asked_at)
            await self._time_out()
        return CLOSE_LOOK_S

    def _answer(self) -> None:
        """Answer, on the worker's loop: it turns."""
        with self._lock:
            blocked_s, self._asked_at = self.blocked_s, None
            blocked, self._blocked = self._blocked, None
        if blocked is not None:
            self._extensions.emit(
                LoopFreed(
                    worker=blocked.worker,
                    blocked_s=blocked_s,
                    job_id=blocked.job_id,
                    task=blocked.task,
                )
            )

    def _report(self, asked_at: float) -> None:
        attempt = self._current()
        # In no variable: a frame that is held keeps what its function holds.
        stack = tuple(_places(sys._current_frames().get(self._thread)))  # noqa: SLF001 - the one way to see another thread's stack
        blocked = LoopBlocked(
            worker=self._settings.worker,
            blocked_s=time.monotonic() - asked_at,
            job_id=None if attempt is None else attempt.job_id,
            task=None if attempt is None else attempt.task,
            stack=stack,
        )
        with self._lock:
            if self._asked_at != asked_at:
                return  # it turns again
            self.blocks += 1
            self._blocked = blocked
        self._refused.clear()
        self._extensions.emit(blocked)

    def _current(self) -> Attempt | None:
        """Tell which attempt's code the loop is in."""
        task = asyncio.current_task(self._loop)
        if task is None:
            return None
        for run in self._runs:
            if run.asyncio_task is task:
                return run.attempt
        if sys.version_info < (3, 12):
            return None
        return attempt_in(task.get_context())  # of a task that a handler has begun

    async def _time_out(self) -> None:
        for run in self._runs:
            # A child's own thread keeps its time, and its retry mustn't run beside it.
            if run.task.defaults.executor is not None:
                continue
            if run.is_to_time_out() and run.key not in self._refused:
                await self._write_timeout(run)

    async def _write_timeout(self, run: Run) -> None:
        # One that looks at it, in a loop of its own, may still end by itself.
        run.attempt.cancelled.set("timeout")
        # In a thread, as a backoff and what follows are the user's code, which must
        # not hold up the renewal.
        thinking = asyncio.to_thread(self._timed_out, run)
        try:
            outcome = await asyncio.wait_for(thinking, LONGEST_THOUGHT_S)
        except TimeoutError:
            outcome = execute.timed_out(run, delay=DEFAULT_DELAY)
        try:
            (settled,) = await self._settings.store.finish([outcome])
        except StoreError:
            return  # tried again at the next look
        if settled.is_locked:
            return
        if not settled.accepted:
            self._refused.add(run.key)  # somebody was faster
            return
        run.is_settled = True
        for event in told(run, outcome, settled):
            self._extensions.emit(event)

    def _timed_out(self, run: Run) -> Outcome:
        return self._extensions.followed(run.claim, execute.timed_out(run))


def _places(frame: FrameType | None) -> Iterator[str]:
    """Name the places of a stack, the innermost first, as file:line:function."""
    left = MOST_FRAMES
    while frame is not None and left:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            left -= 1
            yield f"{code.co_filename}:{frame.f_lineno}:{code.co_name}"
        elif Path(code.co_filename).parent == Path(__file__).parent:
            return  # who started the handler, which tells nobody anything
        frame = frame.f_back
