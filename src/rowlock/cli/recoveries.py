"""
What dead workers held, recovered by one that lives.

A supervisor reads no store: it says whose claims are to be recovered, and only of a
worker whose death it saw, to the last process of its group (law 9).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowlock.cli.child import Child

logger = logging.getLogger("rowlock.cli")

# After SIGKILL: what the kernel can't end is left to its lease.
LONGEST_DEATH_S = 10.0
# For how long one is waited for, before another is asked too; the fence lets one win.
ANSWER_S = 5.0


class Recoveries:
    """The deaths of one supervisor's workers, until what they held is recovered."""

    def __init__(self) -> None:
        self._dying: list[Child] = []
        # When each may be asked for again, and who was asked last.
        self._lost: dict[str, tuple[float, Child | None]] = {}
        # Those that ended as they were told to, and have most likely left nothing.
        self._drained: set[str] = set()
        self._turns = 0

    @property
    def is_urgent(self) -> bool:
        """Whether a death is to be looked at again soon."""
        return bool(self._dying)

    def add(self, dead: Child) -> None:
        """Take on a child that was reaped, and whose group was killed."""
        self._dying.append(dead)

    def turn(self, children: Sequence[Child], now: float) -> None:
        """Look who is gone to the last process, and have a child recover each."""
        self._dying = [each for each in self._dying if not self._is_over(each, now)]
        for child in children:
            for worker in child.recovered:
                self._lost.pop(worker, None)
            child.recovered.clear()
        ready = [
            child for child in children if child.is_ready and child.told_at is None
        ]
        if not ready:
            return
        for worker, (again_at, asked) in self._lost.items():
            if now >= again_at or asked not in ready:
                child = ready[self._turns % len(ready)]
                self._turns += 1
                child.recover(worker)
                self._lost[worker] = (now + ANSWER_S, child)

    def end(self) -> None:
        """Tell whose recovery nobody has confirmed, as none is left to do it."""
        left = {dead.worker for dead in self._dying if not dead.has_drained}
        left |= self._lost.keys() - self._drained
        for worker in filter(None, left):
            logger.warning(
                "No worker is left to recover what %s held when it died: if it held any"
                " job, that is left to its lease.",
                worker,
            )

    def _is_over(self, dead: Child, now: float) -> bool:
        if dead.is_group_gone():
            # Whatever its exit code: a handler may have called os._exit(0). One
            # without an id has never claimed.
            if dead.worker is not None:
                self._lost[dead.worker] = (now, None)
                if dead.has_drained:
                    self._drained.add(dead.worker)
            return True
        if now - dead.died_at < LONGEST_DEATH_S:
            return False
        logger.error(
            "A process that %s has started can't be ended: what it held is left to its"
            " leases.",
            dead.worker or f"process {dead.pid}",
        )
        return True
