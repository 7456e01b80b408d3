"""
Threads for plain functions: one a job, kept for the next.

Not a `ThreadPoolExecutor`: a handler that can't be stopped would hold one of its places
for good, and its threads are joined at exit. Here a stuck thread is left behind (it is
a daemon), and the pool starts another.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeAlias

Call: TypeAlias = Callable[[], None]


class Threads:
    """Idle threads that wait for a call; it grows with the calls under way."""

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[Call | None]] = []
        self._lock = threading.Lock()
        self._closed = False
        self._started = 0

    def run(self, call: Call) -> None:
        """Run `call` in a thread at once; it must not raise."""
        with self._lock:
            calls = self._idle.pop() if self._idle else None
        if calls is None:
            calls = queue.SimpleQueue()
            self._started += 1
            threading.Thread(
                target=self._work,
                args=(calls,),
                name=f"rowlock-handler-{self._started}",
                daemon=True,
            ).start()
        calls.put(call)

    def close(self) -> None:
        """Let idle threads end; those at work end after their call."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for calls in idle:
            calls.put(None)

    def _work(self, calls: queue.SimpleQueue[Call | None]) -> None:
        while True:
            call = calls.get()
            if call is None:
                return
            call()
            # Held on to, it would keep the job's arguments alive until the next one.
            del call
            with self._lock:
                if self._closed:
                    return
                self._idle.append(calls)
