"""
Telling the store of an app's tasks and their defaults, as workers do.

SQL's `enqueue` knows the defaults of a task from there, and a web app may have tasks
that no worker has brought yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from rowlock._clock import Clock
from rowlock._errors import OutcomeUnknown, StoreError, StoreUnavailable
from rowlock._store import Store, TaskInfo
from rowlock._task import Task

_log = logging.getLogger("rowlock.app")

# After the call that causes it, so that nobody's enqueue or start has it in its way,
# and the caller's transaction is over by then; a script that ends sooner tells nothing.
SETTLE_S = 1.0
PAUSE_S = 3600.0
AGAIN_S = 60.0  # where the store was out of reach, or a row of it was locked


class Register:
    """Tells a store of an app's tasks: soon after the first call, hourly at most."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Task[..., Any]],
        max_payload: int,
        clock: Clock,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._max_payload = max_payload
        self._monotonic = clock.monotonic
        self._next = float("-inf")
        self._run = 0
        # asyncio holds its tasks weakly.
        self._telling: set[asyncio.Task[None]] = set()

    def nudge(self) -> None:
        """Have it done if it is time, on the running loop; it waits for nothing."""
        now = self._monotonic()
        if now < self._next or not self._tasks:
            return
        # Until it is done; this loop may be over before.
        self._next = now + AGAIN_S
        asyncio.get_running_loop().call_later(SETTLE_S, self._start, self._run)

    def forget(self) -> None:
        """Do what is to come no more: the store is closing. The next call begins."""
        self._run += 1
        self._next = float("-inf")

    async def tell(self) -> bool:
        """Tell of the tasks there are by now; False: the store was out of reach."""
        infos = task_infos(self._tasks.values(), self._max_payload)
        try:
            await self._store.register(None, infos)
        except (StoreUnavailable, OutcomeUnknown) as error:
            _not_told(error)
            return False
        except StoreError as error:
            # A role that may enqueue and no more; it won't be granted more soon.
            _not_told(error)
        return True

    def _start(self, run: int) -> None:
        if run == self._run:
            telling = asyncio.get_running_loop().create_task(self._tell_for_long())
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    async def _tell_for_long(self) -> None:
        if await self.tell():
            self._next = self._monotonic() + PAUSE_S


def task_infos(
    tasks: Iterable[Task[..., Any]], max_payload: int
) -> tuple[TaskInfo, ...]:
    """Tell of tasks what whoever enqueues without their app has to know."""
    return tuple(
        TaskInfo(
            name=task.name,
            queue=task.defaults.queue,
            defaults={
                "priority": task.defaults.priority,
                "max_attempts": task.defaults.max_attempts,
                "timeout": task.defaults.timeout,
                "max_payload": max_payload,
            },
        )
        for task in tuple(tasks)
    )


def _not_told(error: StoreError) -> None:
    _log.debug("app.register", extra={"rowlock": {"error": str(error)}})
