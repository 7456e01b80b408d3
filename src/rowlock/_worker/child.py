"""
A child process of a worker: runs one handler at a time, and dies with its worker.

Plain handlers run in the main thread, since only there a signal can interrupt them;
async ones, and what surrounds any, on a loop in a thread of its own. Another thread
reads what the worker says, and never writes, so that neither side waits for the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import logging
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from types import FrameType
from typing import Any

from rowlock import _attempt
from rowlock._job import ClaimKey, Outcome
from rowlock._joining import Elsewhere
from rowlock._task import Task
from rowlock._worker import execute
from rowlock._worker.forks import check_home, home
from rowlock._worker.forward import forward_logs
from rowlock._worker.messages import (
    Answer,
    Begun,
    Checkpoint,
    End,
    Ended,
    Progress,
    Ready,
    Setup,
    Start,
    Stop,
)
from rowlock._worker.places import Place, find
from rowlock._worker.runs import Run
from rowlock._worker.surround import surrounded

Call = Callable[[], object]

_OURS = (signal.SIGTERM, signal.SIGINT)


def main(connection: Connection, setup: Setup) -> None:
    """Be a child process until the worker ends it."""
    # A group of its own: the terminal's Ctrl-C isn't for it, and what a handler starts
    # is killed with it.
    os.setsid()
    die_with_parent()
    # It is a daemon for the worker's exit, and a daemon may start no processes.
    multiprocessing.current_process().daemon = False
    os.environ.clear()
    os.environ.update(setup.environment)
    child = Child(connection, setup)
    if child.find_tasks():
        child.serve()


def die_with_parent() -> None:
    """
    Have the kernel kill this group when the worker has died, whatever runs here.

    The end of a pipe that the worker alone holds open is a signal, and the signal is
    SIGKILL. Not PR_SET_PDEATHSIG: the parent by the kernel's book is the fork server.
    """
    parent = multiprocessing.parent_process()
    if sys.platform != "linux" or parent is None:
        return
    import fcntl  # noqa: PLC0415 - not on every platform

    pipe = int(parent.sentinel)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_ASYNC)


class Child(Elsewhere):
    """The inside of a child process, and the `Desk` of its attempts."""

    def __init__(self, connection: Connection, setup: Setup) -> None:
        self._connection = connection
        self._setup = setup
        self._pid = os.getpid()
        self._sending = threading.RLock()
        self._unsent: deque[memoryview] = deque()
        self._sender: int | None = None
        self._work: queue.SimpleQueue[Start | None] = queue.SimpleQueue()
        # By number: who gave up waiting must not take the answer of another.
        self._asked: dict[int, queue.SimpleQueue[Answer]] = {}
        self._numbers = itertools.count(1)
        self._run: Run | None = None
        self._early: Stop | None = None
        self._task: asyncio.Task[Outcome] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Whether a signal may interrupt the main thread, and whether one has.
        self._in_handler = False
        self._is_held = False
        self._is_late = False
        self._has_struck = False
        self._main = threading.get_ident()
        self._take_signals()
        os.register_at_fork(
            before=partial(signal.pthread_sigmask, signal.SIG_BLOCK, _OURS),
            after_in_parent=partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, _OURS),
            after_in_child=_leave,
        )

    def find_tasks(self) -> bool:
        """Find the tasks, and tell the worker whether they are there."""
        forward_logs(self._send, self._setup.levels)
        try:
            for place in self._setup.places:
                self._find(place)
        except BaseException as error:  # noqa: BLE001 - a module's own code
            self._send(Ready(f"{type(error).__name__}: {error}"))
            return False
        # Again: what was imported may have set up a log of its own.
        forward_logs(self._send, self._setup.levels)
        self._send(Ready())
        return True

    def serve(self) -> None:
        """Run what comes until told to go."""
        threading.Thread(target=self._read, name="rowlock-read", daemon=True).start()
        while (start := self._work.get()) is not None:
            outcome, swallowed = self._came_to(start)
            self._run = None
            self._take_signals()
            self._send(Ended(outcome, swallowed))
            del outcome, start

    # The desk

    async def checkpoint(self, key: ClaimKey, state: str) -> bool:
        """Have the worker write the state; False: the claim is lost."""
        return await asyncio.to_thread(self.checkpoint_sync, key, state)

    def checkpoint_sync(self, _key: ClaimKey, state: str) -> bool:
        """Do the same, and block this thread meanwhile."""
        number, answers = next(self._numbers), queue.SimpleQueue[Answer]()
        self._asked[number] = answers
        self._send(Checkpoint(number, state))
        answer = answers.get()
        if answer.error is not None:
            raise answer.error
        return answer.held

    def progress(self, _key: ClaimKey, progress: str) -> None:
        """Tell the worker how far it has come."""
        self._send(Progress(progress))

    # The pipe

    def _send(self, message: object) -> None:
        check_home(self._pid)
        self._unsent.append(ForkingPickler.dumps(message))
        is_main = threading.get_ident() == self._main
        if is_main:
            # Interrupted in the middle of a message, no other could be read.
            was_held, self._is_held = self._is_held, True
        try:
            self._send_all(threading.get_ident())
        finally:
            if is_main:
                self._is_held = was_held
        if is_main and self._is_late and not self._is_held:
            self._strike()

    def _send_all(self, sender: int) -> None:
        # In the middle of a message a signal's function, or a `__del__`, may log: that
        # goes after the message.
        while self._unsent and self._sender != sender:
            with self._sending, contextlib.suppress(BrokenPipeError):
                self._sender = sender
                try:
                    while self._unsent:
                        self._connection.send_bytes(self._unsent.popleft())
                finally:
                    self._sender = None

    def _take_signals(self) -> None:
        """Have the signals that are ours, whatever a handler has made of them."""
        signal.signal(signal.SIGTERM, self._hear)
        # Not SIG_IGN, which what a handler starts would inherit.
        signal.signal(signal.SIGINT, _ignore)
        # An alarm that was left on would strike the next job.
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)

    def _read(self) -> None:
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                os.killpg(0, signal.SIGKILL)  # the worker has died
                return
            match message:
                case Start():
                    self._work.put(message)
                case Answer():
                    self._asked.pop(message.number).put(message)
                case Stop():
                    self._stop(message)
                case End():
                    self._work.put(None)
                    return

    def _stop(self, stop: Stop) -> None:
        self._early = stop
        # Looked at after that: the main thread sets the one, and then reads the other.
        run = self._run
        if run is None:
            return
        run.attempt.cancelled.set(stop.reason)
        loop, task = self._loop, self._task
        if loop is not None and task is not None and run.task.is_async:
            loop.call_soon_threadsafe(task.cancel)
        signal.pthread_kill(self._main, signal.SIGTERM)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        # A SIGTERM that the worker didn't announce is meant for the worker, as systemd
        # sends it to every process of a service.
        run = self._run
        if not self._in_handler or run is None or run.reason is None:
            return
        if self._is_held:
            self._is_late = True
        else:
            self._strike()

    def _strike(self) -> None:
        self._is_late = False
        if self._in_handler and not self._has_struck:
            self._has_struck = True
            reason = None if self._run is None else self._run.reason
            raise asyncio.CancelledError(reason)

    # The handler

    def _came_to(self, start: Start) -> tuple[Outcome, tuple[str, ...]]:
        task = self._find(start.place)
        claim = start.claim
        run = Run(
            claim,
            task,
            execute.timeout_of(claim, task),
            desk=self,
            max_payload=self._setup.max_payload,
        )
        self._run = run
        if self._early is not None:
            run.attempt.cancelled.set(self._early.reason)
        self._send(Begun())
        try:
            arguments = task.codec.decode(claim.payload)
        except BaseException as error:  # noqa: BLE001 - an argument's own code
            return execute.unstartable(run, error), ()
        context = _attempt.context_of(run.attempt, run.made)
        arounds = task._door.arounds()  # noqa: SLF001 - the app's, which has no name here
        if task.is_async or arounds:
            outcome = self._on_loop(run, arguments, context)
        else:
            outcome = self._judged(
                run, partial(context.run, task.function, **arguments)
            )
        return outcome, run.swallowed

    def _judged(self, run: Run, call: Call) -> Outcome:
        try:
            result = self._called(run, call)
        except BaseException as error:  # noqa: BLE001 - SystemExit would end the child
            self._in_handler = False
            return execute.raised(run, error)
        return execute.returned(run, result, max_payload=self._setup.max_payload)

    def _called(self, run: Run, call: Call) -> object:
        """Call a plain handler, in the main thread, where a signal interrupts it."""
        try:
            self._in_handler = True
            run.attempt.cancelled.raise_if_set()
            with home(self._pid):
                return call()
        finally:
            self._in_handler = False

    def _on_loop(
        self, run: Run, arguments: Mapping[str, object], context: contextvars.Context
    ) -> Outcome:
        """Run a handler on the loop; of a plain one, what surrounds it."""
        steps: queue.SimpleQueue[Call | Outcome] = queue.SimpleQueue()
        function = run.task.function
        call: Callable[[], Awaitable[object]] = (
            partial(function, **arguments)
            if run.task.is_async
            else partial(self._in_main, run, partial(function, **arguments), steps)
        )
        loop = self._looping()

        def begin() -> None:
            self._task = loop.create_task(self._surrounded(run, call), context=context)
            self._task.add_done_callback(lambda task: steps.put(_ended(run, task)))
            if run.task.is_async and run.reason is not None:
                self._task.cancel()

        loop.call_soon_threadsafe(begin)
        while not isinstance(step := steps.get(), Outcome):
            step()
        self._task = None
        return step

    async def _surrounded(
        self, run: Run, call: Callable[[], Awaitable[object]]
    ) -> Outcome:
        arounds = run.task._door.arounds()  # noqa: SLF001 - as above
        try:
            with home(self._pid):
                result = await surrounded(arounds, run.attempt, call)
        except BaseException as error:  # noqa: BLE001 - SystemExit would end the loop
            return execute.raised(run, error)
        return execute.returned(run, result, max_payload=self._setup.max_payload)

    async def _in_main(
        self, run: Run, call: Call, steps: queue.SimpleQueue[Call | Outcome]
    ) -> object:
        """Have the main thread call a plain handler, which sees what surrounds it."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        came: list[tuple[object, BaseException | None]] = []
        context = contextvars.copy_context()

        def step() -> None:
            try:
                came.append((self._called(run, partial(context.run, call)), None))
            except BaseException as error:  # noqa: BLE001 - raised again on the loop
                self._in_handler = False
                came.append((None, error))
            loop.call_soon_threadsafe(ended.set)

        steps.put(step)
        await ended.wait()
        result, error = came.pop()
        if error is not None:
            raise error
        return result

    def _looping(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._loop.run_forever, name="rowlock-loop", daemon=True
            ).start()
        return self._loop

    def _find(self, place: Place) -> Task[..., Any]:
        found = find(place)
        if not isinstance(found, Task):
            msg = f"{place.module}.{place.qualname} is no task"
            raise TypeError(msg)
        return found


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing."""


def _leave() -> None:
    """Have a fork, as a handler may make one, be a process as any other."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Blocked before, as one that came in between would have been heard by nobody.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OURS)
    # The pipe has one writer, or messages would mix.
    logging.root.handlers[:] = [logging.StreamHandler()]


def _ended(run: Run, task: asyncio.Task[Outcome]) -> Outcome:
    # Cancelled before its first step, a task never enters its coroutine.
    if task.cancelled():
        return execute.raised(run, asyncio.CancelledError())
    return task.result()
