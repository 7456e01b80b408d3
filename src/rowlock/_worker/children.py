"""
A worker's child processes: one job at a time in each, and each can be killed.

Not a `ProcessPoolExecutor`: it fails the innocent jobs beside one whose process died,
and can't end a job. Each attempt has a thread here that speaks with its child and keeps
its time, so that neither the loop nor a child that stands still holds up the other.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rowlock._errors import ConfigError, StoreError
from rowlock._worker import execute
from rowlock._worker.forward import handle, levels_of_loggers
from rowlock._worker.messages import (
    Answer,
    Begun,
    Checkpoint,
    Ended,
    Logged,
    Progress,
    Ready,
    Setup,
    Start,
    Stop,
)
from rowlock._worker.places import Place, place_of
from rowlock._worker.process import LONGEST_GOODBYE_S, Gone, Process

if TYPE_CHECKING:
    from concurrent.futures import Future
    from multiprocessing.context import ForkServerContext, SpawnContext

    from rowlock._attempt import Desk
    from rowlock._job import ClaimKey, Outcome
    from rowlock._task import Task
    from rowlock._worker.runs import Run
    from rowlock._worker.settings import Settings

# How long a start may take: it imports the app, and what that imports.
LONGEST_START_S = 120.0
MEMORY_PAUSE_S = 0.2
# After SIGKILL: a process that the kernel can't end yet isn't waited for.
LONGEST_DEATH_S = 5.0
# Of max_memory_mb: a child that holds more when it is idle is replaced.
IDLE_SHARE = 0.5


class Drive:
    """One attempt in a child, as its thread sees it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        # It counts from where the handler begins, not while a child starts.
        self.timeout_s = execute.timeout_of(run.claim, run.task)
        run.no_later_than = None
        self.child: Process | None = None
        self.has_begun = False
        self.is_told = False
        self.kill_at: float | None = None
        self.too_large_mb: float | None = None


class Children:
    """The child processes of one worker: as many as jobs need at once, kept idle."""

    def __init__(self, settings: Settings, desk: Desk, grace_s: float) -> None:
        self._desk = desk
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._tasks = [task for task in settings.tasks.values() if _is_ours(task)]
        self._max_payload = settings.max_payload
        self._context = _context()
        self._lock = threading.Lock()
        self._idle: list[Process] = []
        self._all: set[Process] = set()
        self._drives: dict[ClaimKey, Drive] = {}
        self._is_closed = False
        # At an exit that nobody announced, multiprocessing would wait for them.
        self._at_exit = weakref.finalize(self, _kill, self._all)

    def warm(self) -> None:
        """
        Start one, so that what keeps them from starting is an error now.

        Raises:
            ConfigError: it can't start, or can't find its tasks.
        """
        self._keep(self._start())

    def drive(self, run: Run, end: Callable[[Outcome], None]) -> None:
        """Run an attempt in a child, from a thread of its own, to its one end."""
        drive = Drive(run)
        self._drives[run.key] = drive
        try:
            outcome = self._tried(drive)
        except BaseException as error:  # noqa: BLE001 - an attempt without end is worse
            outcome = (
                execute.unstartable(run, error)
                if run.reason is None
                else execute.raised(run, asyncio.CancelledError(run.reason))
            )
            if drive.child is not None:
                self._retire(drive.child, at_once=True)
                drive.child = None
        finally:
            self._drives.pop(run.key, None)
        end(outcome)
        child = drive.child
        if child is None:
            return
        if drive.is_told or _is_spent(child, run.task):
            # What was interrupted anywhere may have left anything behind.
            self._retire(child)
        else:
            self._keep(child)

    def stop(self, run: Run) -> None:
        """Have its thread tell the child of the reason, which stands in the run."""
        drive = self._drives.get(run.key)
        if drive is not None and drive.child is not None:
            drive.child.wake()

    def kill_told(self) -> bool:
        """Kill what was told to stop and runs on; tell whether anything does."""
        # A copy: their threads come and go meanwhile.
        drives = tuple(self._drives.values())
        told = [drive for drive in drives if drive.run.reason is not None]
        _kill(drive.child for drive in told)
        return bool(told)

    def close(self) -> None:
        """End every child, and wait for that, from a thread."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        _kill(drive.child for drive in tuple(self._drives.values()))
        for child in idle:
            child.say_end()
        # One time for all: it is taken out of the shutdown's.
        until = time.monotonic() + LONGEST_GOODBYE_S
        for child in idle:
            child.ends_by(until)
            self._retire(child, at_once=True)
        self._at_exit.detach()

    def _start(self, drive: Drive | None = None) -> Process:
        """Start one; where it is for a job, for as long as that isn't told to stop."""
        setup = Setup(
            places=tuple(place_of(task) for task in self._tasks),
            environment=dict(os.environ),
            levels=levels_of_loggers(),
            max_payload=self._max_payload,
        )
        try:
            child = Process(self._context, setup)
        except (OSError, EOFError, RuntimeError) as error:
            msg = f"A child process can't be started: {error}"
            raise ConfigError(msg) from error
        self._all.add(child)
        if drive is not None:
            drive.child = child
        try:
            problem = _problem(child, drive)
        except Gone:
            problem = (
                f"{child.how_it_ended()} before it was ready; what it printed says why."
                " A script needs `if __name__ == '__main__':` before what it starts"
            )
        if problem is None:
            return child
        self._retire(child, at_once=True)
        msg = f"A child process for executor='process' can't start: {problem}."
        raise ConfigError(msg)

    def _started(self, drive: Drive) -> Process:
        try:
            return self._start(drive)
        except ConfigError:
            # The fork server may have died just then: another start has another one.
            if drive.run.reason is not None or self._is_closed:
                raise
        return self._start(drive)

    def _keep(self, child: Process) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(child)
                return
        self._retire(child)

    def _take(self, drive: Drive) -> Process:
        task = drive.run.task
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None:
                return self._started(drive)
            if not child.is_gone() and not _is_spent(child, task):
                return child
            self._retire(child)

    def _tried(self, drive: Drive) -> Outcome:
        place = place_of(drive.run.task)
        for _ in range(2):
            outcome = self._ran(drive, place)
            if outcome is not None:
                return outcome
            # It died before the handler began: another child may fare better, once.
            if drive.has_begun or drive.run.reason is not None or self._is_closed:
                break
        return self._died(drive)

    def _ran(self, drive: Drive, place: Place) -> Outcome | None:
        """Run it in one child; None: that died of it."""
        drive.child = child = self._take(drive)
        # Told to stop while that started, or left behind. Looked at with the child in
        # its place: `close` looks the other way round.
        if drive.run.reason is not None or self._is_closed:
            drive.child = None
            self._keep(child)
            return None
        try:
            child.send(Start(drive.run.claim, place))
            return self._listened(drive, child)
        except Gone:
            child.how_it_ended()  # before it is killed, where it ended by itself
            self._retire(child, at_once=True)
            return None

    def _listened(self, drive: Drive, child: Process) -> Outcome:
        run = drive.run
        bound_mb = run.task.defaults.max_memory_mb
        while True:
            self._keep_time(drive, child)
            if bound_mb is not None and child.rss_mb() > bound_mb:
                drive.too_large_mb = child.rss_mb()
                child.kill()
                drive.kill_at = drive.kill_at or time.monotonic()
                bound_mb = None
            match child.hear(self._next_look(drive, bound_mb)):
                case Ended(outcome, swallowed):
                    child.jobs += 1
                    run.swallowed = swallowed
                    return outcome
                case Begun():
                    drive.has_begun = True
                    run.begin(drive.timeout_s)
                case Logged(record):
                    handle(record)
                case Progress(progress):
                    self._desk.progress(run.key, progress)
                case Checkpoint(number, state):
                    self._checkpoint(run.key, child, number, state)

    def _keep_time(self, drive: Drive, child: Process) -> None:
        run, now = drive.run, time.monotonic()
        if run.no_later_than is not None and now >= run.no_later_than:
            run.attempt.cancelled.set("timeout")
        if run.reason is not None and not drive.is_told:
            drive.is_told = True
            child.send(Stop(run.reason))
            if run.reason != "shutdown":  # whose hard end kills what is left
                drive.kill_at = now + self._grace_s
        if drive.kill_at is not None and now >= drive.kill_at:
            child.kill()
            if now >= drive.kill_at + LONGEST_DEATH_S:
                raise Gone

    def _next_look(self, drive: Drive, bound_mb: int | None) -> float | None:
        looks = [] if drive.kill_at is None else [drive.kill_at]
        now = time.monotonic()
        if drive.kill_at is not None and now >= drive.kill_at:
            looks = [drive.kill_at + LONGEST_DEATH_S]
        if bound_mb is not None:
            looks.append(now + MEMORY_PAUSE_S)
        if drive.run.no_later_than is not None and not drive.is_told:
            looks.append(drive.run.no_later_than)
        return min(looks, default=None)

    def _checkpoint(
        self, key: ClaimKey, child: Process, number: int, state: str
    ) -> None:
        def answered(future: Future[bool]) -> None:
            try:
                answer = Answer(number, future.result())
            except StoreError as error:
                answer = Answer(number, held=False, error=error)
            except BaseException as error:  # noqa: BLE001 - may not be picklable
                answer = Answer(number, held=False, error=StoreError(repr(error)))
            child.answer(answer)

        call = self._desk.checkpoint(key, state)
        try:
            future = asyncio.run_coroutine_threadsafe(call, self._loop)
        except RuntimeError:  # the loop is closed
            call.close()
            child.answer(Answer(number, held=False))
        else:
            future.add_done_callback(answered)

    def _died(self, drive: Drive) -> Outcome:
        run, child = drive.run, drive.child
        drive.child = None
        if run.reason is not None:
            return execute.raised(run, asyncio.CancelledError(run.reason))
        if drive.too_large_mb is not None:
            text = (
                f"the child process held {drive.too_large_mb:.0f} MB, more than its"
                f" max_memory_mb of {run.task.defaults.max_memory_mb}, and was killed"
            )
            return execute.ended_by(run, "MemoryError", text)
        how = "the child process ended" if child is None else child.how_it_ended()
        when = "while" if drive.has_begun else "before"
        return execute.ended_by(run, "ChildDied", f"{how} {when} the handler ran")

    def _retire(self, child: Process, *, at_once: bool = False) -> None:
        child.end(at_once=at_once)
        self._all.discard(child)


def _problem(child: Process, drive: Drive | None) -> str | None:
    """Wait until a child is ready; tell what keeps it from that."""
    until = time.monotonic() + LONGEST_START_S
    while time.monotonic() < until:
        if drive is not None and drive.run.reason is not None:
            return "its job was told to stop meanwhile"
        match child.hear(until):
            case Logged(record):
                handle(record)
            case Ready(problem):
                return problem
    return f"it wasn't ready within {LONGEST_START_S:g} s"


def _context() -> ForkServerContext | SpawnContext:
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # Our own modules alone: a user's may start threads, which no fork survives.
    context.set_forkserver_preload(["rowlock._worker.child"])
    return context


def _is_ours(task: Task[..., Any]) -> bool:
    return task.defaults.executor == "process"


def _is_spent(child: Process, task: Task[..., Any]) -> bool:
    """Tell whether a child has run too many jobs, or holds too much, for a task."""
    options = task.defaults
    if options.max_jobs_per_child and child.jobs >= options.max_jobs_per_child:
        return True
    bound_mb = options.max_memory_mb
    return bound_mb is not None and child.rss_mb() > bound_mb * IDLE_SHARE


def _kill(children: Iterable[Process | None]) -> None:
    for child in tuple(children):
        if child is not None:
            child.kill()
