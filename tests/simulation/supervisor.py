"""
Who hears of workers' deaths, and has another recover what they held.

`rowlock worker` has it from the kernel, and tells a child by a line; whom, and whom
else if that one is silent or dies too, is decided by its own `Recoveries` here as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Protocol, cast

from rowlock._worker.worker import Worker
from rowlock.cli.child import Child as AnyChild
from rowlock.cli.recoveries import Recoveries

from .history import History
from .loop import Loop, Process
from .store import OUTSIDE

# Between two looks, while somebody is dead; it looks at once where one is gone.
TURN_S = 1.0
# For how long the last process of a dead group may live, and a message be on its way.
LONGEST_DYING_S = 1.0
LONGEST_WAY_S = 0.02


class Scene(Protocol):
    """What a supervisor needs of the world."""

    random: Random
    history: History
    loop: Loop


class Child:
    """A worker's process, as its supervisor sees it."""

    pid = 0
    # Only the warnings of a supervisor that ends ask for it.
    has_drained = False

    def __init__(self, process: Process, worker: Worker, scene: Scene) -> None:
        self.worker = process.name
        self.recovered: list[str] = []
        self.told_at: float | None = None
        self.died_at = 0.0
        self.process = process
        self._gone_at = 0.0
        self._work = worker
        self._scene = scene
        self._recovering: set[str] = set()

    @property
    def is_ready(self) -> bool:
        return not self.process.is_dead and self._work.health().ready

    def die(self, then: Callable[[], object]) -> None:
        self.died_at = self._scene.loop.time()
        lasts = LONGEST_DYING_S * self._scene.random.random() ** 3
        self._gone_at = self.died_at + lasts
        self._scene.loop.call_later(lasts, then, context=OUTSIDE)

    def is_group_gone(self) -> bool:
        return self._scene.loop.time() >= self._gone_at

    def recover(self, worker: str) -> None:
        self._send(partial(self._begin, worker), to=self.process)

    def _send(self, call: Callable[[], object], *, to: Process | None) -> None:
        after = self._scene.random.uniform(0.0, LONGEST_WAY_S)
        with self._scene.loop.inside(to):
            self._scene.loop.call_later(after, call)

    def _begin(self, lost: str) -> None:
        """Do as `rowlock.cli.supervised` does."""
        if lost in self._recovering:
            return
        self._recovering.add(lost)
        self._scene.history.add(self.worker, "is to recover", note=lost)
        recovering = asyncio.ensure_future(self._work._recover(lost))
        recovering.add_done_callback(partial(self._tell, lost))

    def _tell(self, lost: str, recovering: asyncio.Future[int]) -> None:
        self._recovering.discard(lost)
        if not recovering.cancelled() and recovering.exception() is None:
            self._scene.history.add(self.worker, "has recovered", note=lost)
            self._send(partial(self.recovered.append, lost), to=None)


class Supervisor:
    """One parent of some workers; it lives as long as the run."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._children: dict[str, Child] = {}
        self._recoveries = Recoveries()
        self._is_turning = False
        self._dead: set[str] = set()

    @property
    def is_idle(self) -> bool:
        """Whether all that it knows to be dead are recovered."""
        return not self._dead

    def add(self, process: Process, worker: Worker) -> None:
        self._children[process.name] = Child(process, worker, self._scene)

    def stops(self, process: Process) -> None:
        """Note that a child is told to stop; it is asked for nothing more."""
        self._children[process.name].told_at = self._scene.loop.time()

    def dies(self, process: Process) -> None:
        """Note a death, whatever the exit code says."""
        child = self._children.pop(process.name)
        child.die(self._look)
        self._dead.add(process.name)
        self._scene.history.add("supervisor", "is to bury", note=process.name)
        # As the real one takes it.
        self._recoveries.add(cast("AnyChild", child))
        if not self._is_turning:
            self._is_turning = True
            self._turn()

    def _turn(self) -> None:
        """Look now and then, as somebody may be ready who wasn't."""
        self._look()
        self._is_turning = bool(self._dead)
        if self._is_turning:
            self._scene.loop.call_later(TURN_S, self._turn, context=OUTSIDE)

    def _look(self) -> None:
        children = tuple(self._children.values())
        for child in children:
            self._dead.difference_update(child.recovered)
        turn: Any = self._recoveries.turn
        turn(children, self._scene.loop.time())
