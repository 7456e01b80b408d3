"""
The supervisor of `rowlock worker`: starts worker processes, watches and replaces them.

A light process in one thread, which imports neither the app nor a store, so that
nothing of a user's can hurt it. What it knows of a worker is what that says on its
line, and that the kernel says that it has died.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import time

import click

from rowlock._worker.health import Health
from rowlock.cli import colour
from rowlock.cli.child import Child
from rowlock.cli.crew import crew_health
from rowlock.cli.errors import FAILED, INTERRUPTED, USAGE
from rowlock.cli.health_server import serving_health
from rowlock.cli.parameters import Address
from rowlock.cli.reaping import adopt_orphans, reap
from rowlock.cli.recoveries import Recoveries
from rowlock.cli.replacing import Replacing
from rowlock.cli.signals import SAME_SIGNAL_S, STOPPING, Heard
from rowlock.cli.slot import Slot

logger = logging.getLogger("rowlock.cli")

# How much longer than its time a worker may take to end, before it is killed: what it
# needs to end itself where a handler blocks its loop, and no more.
OVERRUN_S = 5.0
IDLE_S = 0.5
URGENT_S = 0.01


def is_possible() -> bool:
    """Tell whether this system has what a supervisor needs: Windows hasn't."""
    return hasattr(os, "killpg")


def supervise(processes: int, *, shutdown_s: float, health: Address | None) -> int:
    """
    Run so many workers by this process's own command line until stopped.

    Gives the exit code.
    """
    supervisor = Supervisor(processes, shutdown_s)
    with serving_health(health, supervisor.health):
        return supervisor.run()


class Supervisor:
    """Worker processes, one a slot, and those that are on their way out."""

    def __init__(self, processes: int, shutdown_s: float) -> None:
        now = time.monotonic()
        self.slots = [Slot(now) for _ in range(processes)]
        self._shutdown_s = shutdown_s
        self._selector = selectors.DefaultSelector()
        # Alive, by process id: in a slot, a successor, or told to stop.
        self._children: dict[int, Child] = {}
        self._recoveries = Recoveries()
        self._replacing = Replacing(self.slots, self._start)
        self._has_terminal = _has_terminal()
        self._told_at: float | None = None
        self._code = 0
        # Why the last start failed, told once; and whether any has ever succeeded.
        self._failure: str | None = None
        self._has_served = False

    def run(self) -> int:
        """Supervise until all have stopped; the exit code."""
        adopt_orphans()
        heard = Heard(_heeded())
        self._selector.register(heard, selectors.EVENT_READ)
        with contextlib.closing(heard), self._selector:
            while self._children or self._told_at is None:
                for key, _ in self._selector.select(self._patience()):
                    if key.fileobj is heard:
                        self._obey(heard.read())
                    else:
                        self._hear(key.data)
                self._turn()
        self._recoveries.end()
        return self._code

    def health(self) -> Health:
        """Tell how its workers are, for a probe; from any thread."""
        return crew_health(
            self.slots, is_stopping=self._told_at is not None, failure=self._failure
        )

    def _turn(self) -> None:
        for pid, code in reap(self._kill_group):
            if (dead := self._children.pop(pid, None)) is not None:
                self._bury(dead, code)
        now = time.monotonic()
        for each in self._children.values():
            if now - (each.told_at or now) > self._shutdown_s + OVERRUN_S:
                each.kill()
        self._recoveries.turn([*self._children.values()], now)
        if self._told_at is None:
            self._replacing.turn(now)
            for slot in self.slots:
                if slot.is_due(now) and (child := self._start()) is not None:
                    slot.child = child

    def _patience(self) -> float:
        """Tell how long to wait for news at most, in seconds."""
        if self._recoveries.is_urgent:
            return URGENT_S
        now = time.monotonic()
        starts = [
            slot.start_at - now
            for slot in self.slots
            if slot.child is None and self._told_at is None
        ]
        return max(min([IDLE_S, *starts]), 0.0)

    # Signals

    def _obey(self, numbers: bytes) -> None:
        for number in numbers:
            if number in STOPPING:
                self._stop(number)
            elif number == signal.SIGHUP:
                # Of a terminal that was closed it means the end, as for any program.
                if self._has_terminal and not _has_terminal():
                    self._stop(signal.SIGTERM)
                elif self._told_at is None:
                    self._replacing.begin()

    def _stop(self, number: int) -> None:
        now = time.monotonic()
        if self._told_at is None:
            self._told_at = now
            for child in self._children.values():
                child.stop(number)
        elif now - self._told_at > SAME_SIGNAL_S:
            self._code = INTERRUPTED
            for child in self._children.values():
                child.kill()

    # Children

    def _start(self) -> Child | None:
        """Start a worker; None: the system has no room for one, which may change."""
        try:
            child = Child()
        except OSError as error:
            self._tell_failure(f"no process could be started: {error}.")
            now = time.monotonic()
            for slot in self.slots:
                if slot.is_due(now):
                    slot.lost(now, None)
            return None
        self._children[child.pid] = child
        self._selector.register(child.channel, selectors.EVENT_READ, child)
        return child

    def _hear(self, child: Child) -> None:
        was_ready_at = child.ready_at
        if not child.hear():
            self._hang_up(child)
        if was_ready_at is None and child.ready_at is not None:
            self._has_served, self._failure = True, None

    def _hang_up(self, child: Child) -> None:
        with contextlib.suppress(KeyError, ValueError):  # it was gone before
            self._selector.unregister(child.channel)

    def _kill_group(self, pid: int) -> None:
        """Kill what a dead child has left, while its id is still its own."""
        if (child := self._children.get(pid)) is not None:
            child.kill()

    def _bury(self, dead: Child, code: int) -> None:
        self._hang_up(dead)
        dead.died(code)
        self._recoveries.add(dead)
        if self._told_at is not None:
            self._note_end(dead, code)
            return
        # Of a mistake it says a sentence; the code alone may be a handler's os._exit.
        if code == USAGE and dead.failure is not None and not self._has_served:
            self._give_up(dead.failure)
        elif (slot := self._slot_of(dead)) is not None:
            delay_s = slot.lost(time.monotonic(), dead.ready_at)
            self._tell_death(dead, delay_s)
            if slot.successor is not None:
                slot.promote()
        else:
            self._replacing.died(dead)

    def _note_end(self, dead: Child, code: int) -> None:
        """Take in how one ended that was told to, if it matters."""
        # Before it had an id it held nothing: the signal itself may have ended it.
        if dead.worker is None or not code:
            return
        if dead.failure is not None:
            logger.error("Worker %s failed as it ended: %s", dead.worker, dead.failure)
        if self._code == 0:
            self._code = FAILED

    def _slot_of(self, child: Child) -> Slot | None:
        return next((slot for slot in self.slots if slot.child is child), None)

    def _give_up(self, failure: str) -> None:
        """End, as no start will ever succeed: a mistake of the user's."""
        said = f"{click.style('Error:', fg='red')} {failure}"
        click.echo(said, err=True, color=colour.wanted())
        self._stop(signal.SIGTERM)
        self._code = USAGE

    def _tell_death(self, dead: Child, delay_s: float) -> None:
        if dead.failure is not None and dead.ready_at is None:
            self._tell_failure(dead.failure)
        else:
            logger.warning(
                "%s (process %d) %s%s; what it held is recovered, and another is"
                " started in %.1f s.",
                f"Worker {dead.worker}" if dead.worker else "A worker at its start",
                dead.pid,
                dead.how_it_ended(),
                f" ({dead.failure})" if dead.failure else "",
                delay_s,
            )

    def _tell_failure(self, failure: str) -> None:
        """Tell why a worker doesn't start, once for as long as it is the same."""
        if failure != self._failure:
            self._failure = failure
            logger.error("No worker could start, which is tried again: %s", failure)


def _heeded() -> list[signal.Signals]:
    """Name the signals that are heard: SIGHUP isn't where nohup has it ignored."""
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [*STOPPING, signal.SIGCHLD, *([] if is_ignored else [signal.SIGHUP])]


def _has_terminal() -> bool:
    """Tell whether there is a terminal that may be closed under this process."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
