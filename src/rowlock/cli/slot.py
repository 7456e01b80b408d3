"""A supervisor's place for one worker, and how long it waits before it fills it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowlock.cli.child import Child

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 30.0
# Who has claimed for so long didn't die of its start.
WELL_S = 10.0


class Slot:
    """
    One of the workers that there should be.

    It is empty from a death until `start_at`, a monotonic instant. A `successor` takes
    the place of a child that is replaced while it works.
    """

    def __init__(self, now: float) -> None:
        self.child: Child | None = None
        self.successor: Child | None = None
        self.start_at = now
        self.empty_since = now
        self._failures = 0

    def is_due(self, now: float) -> bool:
        """Tell whether a worker is to be started now."""
        return self.child is None and self.successor is None and now >= self.start_at

    def lost(self, now: float, ready_at: float | None) -> float:
        """
        Empty it, as its worker died; give the delay until the next one, in seconds.

        `ready_at` is when that began to claim; None: it never did.
        """
        if ready_at is not None:
            self.empty_since = now
            if now - ready_at >= WELL_S:
                self._failures = 0
        # 2 ** 9 is above the longest, and 2 ** 2000 no float.
        delay = min(FIRST_DELAY_S * 2.0 ** min(self._failures, 9), LONGEST_DELAY_S)
        self._failures += 1
        self.child = None
        self.start_at = now + delay
        return delay

    def promote(self) -> Child | None:
        """Give the place to the successor; the one that had it."""
        old, self.child, self.successor = self.child, self.successor, None
        self._failures = 0
        return old
