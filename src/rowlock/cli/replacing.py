"""SIGHUP: the workers are replaced, one by one, and each only by one that claims."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rowlock._words import count

if TYPE_CHECKING:
    from rowlock.cli.child import Child
    from rowlock.cli.slot import Slot

logger = logging.getLogger("rowlock.cli")

# A start that takes longer is none: the old workers go on.
LONGEST_START_S = 120.0


class Replacing:
    """The replacement of all workers, where one is asked for."""

    def __init__(
        self, slots: Sequence[Slot], start: Callable[[], Child | None]
    ) -> None:
        self._slots = slots
        self._start = start
        self._left: list[Slot] = []
        self._slot: Slot | None = None
        self._old: Child | None = None
        self._is_on = False
        self._again = False
        self._replaced = 0

    def begin(self) -> None:
        """Replace all; once more, where it is on already."""
        if self._is_on:
            self._again = True
            return
        logger.info(
            "SIGHUP: replacing %s, each once its successor claims.",
            count(len(self._slots), "worker"),
        )
        self._left = list(self._slots)
        self._replaced = 0
        self._is_on = True

    def turn(self, now: float) -> None:
        """Go on, where there is something to do."""
        if not self._is_on or (self._old is not None and self._old.code is None):
            return
        self._old = None
        slot = self._slot
        if slot is None:
            self._next(now)
        elif (successor := slot.successor) is None:
            # Its worker died meanwhile, and the successor has its place.
            self._slot = None
        elif successor.is_ready:
            self._old, self._slot = slot.promote(), None
            self._replaced += 1
            if self._old is not None:
                self._old.stop(signal.SIGTERM)
        elif now - successor.began_at > LONGEST_START_S:
            successor.kill()

    def died(self, dead: Child) -> None:
        """Give up where a successor has died; the old workers go on."""
        slot = self._slot
        if slot is None or slot.successor is not dead:
            return
        slot.successor = self._slot = None
        self._left.clear()
        self._is_on = self._again = False
        logger.error(
            "The new worker %s before it claimed, so the old ones go on; SIGHUP tries"
            " again. %s",
            dead.how_it_ended(),
            dead.failure or "",
        )

    def _next(self, now: float) -> None:
        if not self._left:
            self._is_on = False
            logger.info(
                "All workers have been replaced."
                if self._replaced
                else "No worker was there to be replaced: those that start are new."
            )
            if self._again:
                self._again = False
                self.begin()
            return
        slot = self._left[0]
        if slot.child is None:
            slot.start_at = now  # what is started has the new code anyway
        elif (successor := self._start()) is not None:
            self._slot, slot.successor = slot, successor
        else:
            return  # the system had no room for it; next time
        self._left.pop(0)
