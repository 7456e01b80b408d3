"""
Threads for plain handlers, of which one takes a step while the loop waits for it.

They are real ones, since nothing else leaves a plain function half-way. But time passes
for them only where they sleep, by a timer of the loop, so that a seed decides all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TypeAlias

from .loop import Loop

Call: TypeAlias = Callable[[], object]


class Thread:
    """It and the loop take turns: neither goes on while the other does."""

    def __init__(self) -> None:
        self._call: Call = _nothing
        self._is_dropped = False
        # Held but in the moment in which one lets the other go on.
        self._ours = threading.Lock()
        self._ours.acquire()
        self._theirs = threading.Lock()
        self._theirs.acquire()
        threading.Thread(target=self._work, daemon=True).start()

    def begin(self, call: Call) -> None:
        self._call, self._is_dropped = call, False
        self.go_on()

    def go_on(self) -> None:
        """Have it run until it sleeps or has nothing more to do."""
        self._ours.release()
        self._theirs.acquire()

    def drop(self) -> None:
        """End its call where it sleeps."""
        self._is_dropped = True
        self.go_on()

    def wait(self) -> None:
        """Stand still until the loop has it go on."""
        self._theirs.release()
        self._ours.acquire()
        if self._is_dropped:
            raise SystemExit

    def _work(self) -> None:
        while True:
            self._ours.acquire()
            self._call()
            self._theirs.release()


def _nothing() -> None: ...


# Those of earlier runs: to start one takes as long as a short run's half.
_idle: list[Thread] = []


class Threads:
    """All threads of one run; a worker takes them for its own pool."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._busy: list[Thread] = []
        self._current: Thread | None = None

    def run(self, call: Call) -> None:
        self._loop.call_soon(self._begin, call)

    def _begin(self, call: Call) -> None:
        thread = _idle.pop() if _idle else Thread()
        self._busy.append(thread)

        def work() -> None:
            call()
            self._busy.remove(thread)
            _idle.append(thread)

        # In a context of its worker's, whose death ends it as all else.
        self._step(thread, partial(thread.begin, partial(copy_context().run, work)))

    def close(self) -> None:
        """Leave those alone that run: as daemons they end with the process."""

    def sleep(self, seconds: float) -> None:
        """Let time pass in the thread that calls."""
        thread = self._current
        assert thread is not None
        self._loop.call_later(seconds, self._step, thread, thread.go_on)
        thread.wait()

    def drop(self) -> None:
        """End what is left of them, with the run."""
        for thread in tuple(self._busy):
            thread.drop()

    def _step(self, thread: Thread, step: Callable[[], None]) -> None:
        self._current = thread
        step()
        self._current = None
