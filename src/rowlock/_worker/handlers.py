"""
Starting handlers and stopping them: async ones as tasks, plain ones in threads.

Every claim that is started here ends in exactly one outcome, handed to `finish` once.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from rowlock import _attempt, _outcome
from rowlock._events.attempts import AttemptStarted, AttemptStuck, SignalSwallowed
from rowlock._worker import execute
from rowlock._worker.forks import home
from rowlock._worker.report import of_attempt
from rowlock._worker.runs import Run, Runs
from rowlock._worker.surround import surrounded
from rowlock._worker.threads import Threads

if TYPE_CHECKING:
    from rowlock._attempt import Desk
    from rowlock._cancelled import Reason
    from rowlock._job import Claim, Outcome
    from rowlock._worker.children import Children
    from rowlock._worker.finish import Finish
    from rowlock._worker.settings import Settings

# A handler that was cancelled may take no longer than this share of the lease to end,
# which isn't renewed after a timeout. The attempt has failed by then, and must not be
# recovered as the loss of its worker.
CANCEL_GRACE_SHARE = 0.4


class Handlers:
    """Runs the handlers of one worker."""

    def __init__(
        self, settings: Settings, runs: Runs, finish: Finish, desk: Desk
    ) -> None:
        self._settings = settings
        self._extensions = settings.extensions
        self._runs = runs
        self._finish = finish
        self._desk = desk
        self._cancel_grace_s = min(
            settings.cancel_grace.total_seconds(),
            settings.lease_s * CANCEL_GRACE_SHARE,
        )
        self._pid = os.getpid()
        self._threads = Threads()
        # None: what would run in a child process runs here, as in tests.
        self._children: Children | None = None
        # asyncio holds its tasks weakly: one that nobody waits for could vanish.
        self._kept: set[asyncio.Task[None]] = set()

    async def warm(self) -> None:
        """Have a child process, where a task runs in one; what keeps it is an error."""
        tasks = self._settings.tasks.values()
        if not any(task.defaults.executor for task in tasks):
            return
        # With it comes multiprocessing, which few workers need.
        from rowlock._worker.children import Children  # noqa: PLC0415

        self._children = Children(self._settings, self._desk, self._cancel_grace_s)
        await self._aside(self._children.warm)

    def kill_children(self) -> bool:
        """Kill children that were told to stop; tell whether there were any."""
        return self._children is not None and self._children.kill_told()

    async def end_children(self) -> None:
        """End every child process."""
        if self._children is not None:
            await self._aside(self._children.close)

    async def _aside(self, function: Callable[[], None]) -> None:
        _, error = await self._came_of(function)
        if error is not None:
            raise error

    def start(self, claim: Claim) -> None:
        """Start the handler of a claim; what can't be started has failed."""
        task = self._settings.tasks[claim.task]
        run = Run(
            claim,
            task,
            execute.timeout_of(claim, task),
            desk=self._desk,
            max_payload=self._settings.max_payload,
        )
        self._runs.add(run)
        # One bad row, or no thread to be had, must not stop the rest.
        try:
            if self._is_apart(run):
                self._tell_started(run)
                self._start_process(run)
            else:
                self._begin(run, task.codec.decode(claim.payload))
        except BaseException as error:  # noqa: BLE001 - an argument's own code
            self._end(run, execute.unstartable(run, error))

    def _begin(self, run: Run, arguments: Mapping[str, object]) -> None:
        self._tell_started(run)
        if timeout := execute.timeout_of(run.claim, run.task):
            run.timer = asyncio.get_running_loop().call_later(
                timeout, self._time_out, run
            )
        context = _attempt.context_of(run.attempt, run.made)
        if run.task.is_async:
            self._start_async(run, arguments, context)
        else:
            self._start_thread(run, arguments, context)

    def _tell_started(self, run: Run) -> None:
        claim = run.claim
        waited = (claim.started_at - claim.run_at).total_seconds()
        self._extensions.emit(
            AttemptStarted(
                **of_attempt(claim),
                waited_s=max(waited, 0.0),
            )
        )

    def _is_apart(self, run: Run) -> bool:
        return self._children is not None and run.task.defaults.executor is not None

    def _start_process(self, run: Run) -> None:
        """Have a thread drive a child process, and keep its time."""
        children, loop = self._children, asyncio.get_running_loop()
        if children is None:
            return

        def end(outcome: Outcome) -> None:
            run.returned_at = time.monotonic()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._end, run, outcome)

        self._threads.run(partial(children.drive, run, end))

    def stop(self, run: Run, reason: Reason) -> None:
        """Tell a handler to stop; an async one that doesn't is given up."""
        if run.ended_at is not None or run.is_told:
            return
        run.stop(reason)
        if self._children is not None and self._is_apart(run):
            self._children.stop(run)
            return
        # A thread can only be asked, so its timeout goes on, and frees its place.
        if not run.task.is_async:
            return
        if run.timer is not None:
            run.timer.cancel()
        if reason != "shutdown":
            run.timer = asyncio.get_running_loop().call_later(
                self._cancel_grace_s, self._give_up, run
            )

    def signal(self, run: Run, reason: Reason) -> None:
        """Set the signal of a handler that isn't on the loop, from any thread."""
        if self._is_apart(run) or not run.task.is_async:
            run.attempt.cancelled.set(reason)
        if self._children is not None and self._is_apart(run):
            self._children.stop(run)

    def _tell_stuck(self, run: Run) -> None:
        self._extensions.emit(
            AttemptStuck(
                **of_attempt(run.claim),
                reason=run.reason or "timeout",
            )
        )

    def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()

    def _start_async(
        self, run: Run, arguments: Mapping[str, object], context: contextvars.Context
    ) -> None:
        call = partial(run.task.function, **arguments)
        run.asyncio_task = asyncio.get_running_loop().create_task(
            self._call(run, call), context=context
        )
        run.asyncio_task.add_done_callback(partial(self._task_done, run))

    async def _call(self, run: Run, call: Callable[[], Awaitable[object]]) -> None:
        """Await a handler inside what surrounds it."""
        try:
            arounds = self._extensions.arounds
            with home(self._pid):
                result = await (
                    surrounded(arounds, run.attempt, call) if arounds else call()
                )
        except BaseException as error:  # noqa: BLE001 - SystemExit would end the loop
            self._raised(run, error)
        else:
            if run.ended_at is None:
                self._end(run, self._judge(run, result))
            else:
                self._runs.is_over(run)

    def _task_done(self, run: Run, task: asyncio.Task[None]) -> None:
        self._kept.discard(task)
        self._runs.is_over(run)
        # Cancelled before its first step, a task never enters its coroutine.
        if task.cancelled():
            self._raised(run, asyncio.CancelledError())

    def _start_thread(
        self, run: Run, arguments: Mapping[str, object], context: contextvars.Context
    ) -> None:
        loop = asyncio.get_running_loop()
        if self._extensions.arounds:
            # No asyncio task of the run: a cancellation would end what surrounds the
            # thread while that goes on.
            task = loop.create_task(
                self._call(run, partial(self._in_thread, run, arguments)),
                context=context,
            )
            self._kept.add(task)
            task.add_done_callback(self._kept.discard)
            return

        def call() -> None:
            # Judged here: an exception holds the frames, and goes with them, and a
            # large result is written as JSON in nobody's way.
            try:
                with home(self._pid):
                    result = context.run(run.task.function, **arguments)
            except BaseException as error:  # noqa: BLE001 - SystemExit ends a thread
                run.returned_at = time.monotonic()
                outcome = execute.raised(run, error)
            else:
                run.returned_at = time.monotonic()
                outcome = self._judge(run, result)
            try:
                loop.call_soon_threadsafe(self._end, run, outcome)
            except RuntimeError:  # the loop is closed: the worker gave this one up
                return

        self._threads.run(call)

    async def _in_thread(self, run: Run, arguments: Mapping[str, object]) -> object:
        """Run a plain function in a thread that sees what surrounds it."""
        result, error = await self._came_of(
            partial(contextvars.copy_context().run, run.task.function, **arguments)
        )
        try:
            if error is not None:
                raise error
            return result
        finally:
            # An exception and a frame that hold each other go late, with all they hold.
            del result, error

    async def _came_of(
        self, function: Callable[[], object]
    ) -> tuple[object, BaseException | None]:
        """Run a function in a thread, and tell what it returned or raised."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        # Emptied at the end, or the frame of `call`, which an exception holds, would
        # hold the exception.
        came: list[tuple[object, BaseException | None]] = []

        def call() -> None:
            try:
                with home(self._pid):
                    came.append((function(), None))
            except BaseException as error:  # noqa: BLE001 - SystemExit ends a thread
                came.append((None, error))
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(ended.set)

        self._threads.run(call)
        await ended.wait()
        return came.pop()

    def _judge(self, run: Run, result: object) -> Outcome:
        return execute.returned(run, result, max_payload=self._settings.max_payload)

    def _raised(self, run: Run, error: BaseException) -> None:
        if run.ended_at is None:
            self._end(run, execute.raised(run, error))
        else:
            self._runs.is_over(run)

    def _end(self, run: Run, outcome: Outcome) -> None:
        if not self._runs.end(run):
            self._runs.is_over(run)
            return
        if run.is_settled:
            self._runs.drop(run.key)
            return
        for words in run.swallowed:
            self._extensions.emit(
                SignalSwallowed(
                    **of_attempt(run.claim),
                    signal=words,
                )
            )
        self._finish.put(run, outcome)

    def _time_out(self, run: Run) -> None:
        if run.has_ended:
            return
        self.stop(run, "timeout")
        if not run.task.is_async:
            self._give_up(run)

    def _give_up(self, run: Run) -> None:
        """Free the slot of a handler that doesn't stop; its late end is dropped."""
        if run.has_ended:
            return
        if run.asyncio_task is not None:
            self._kept.add(run.asyncio_task)
        self._tell_stuck(run)
        self._runs.give_up(run)
        self._end(
            run,
            _outcome.cancelled(run.key)
            if run.reason == "cancel"
            else execute.timed_out(run),
        )
