"""How many jobs a worker ends a second, and so how many are worth having at hand."""

from __future__ import annotations

import time

# A claim takes a few milliseconds. What is at hand for longer is better left to others.
AT_HAND_S = 0.02
MOST_AT_HAND = 500
# For how long ends are counted, and after how long without one nothing is known.
COUNTED_S = 0.05
STALE_S = 0.1


class Throughput:
    """The throughput of one worker, of late."""

    def __init__(self) -> None:
        self._ended = 0
        self._since = self._last = time.monotonic()
        self._per_second = 0.0

    def ended(self) -> None:
        """Note that a job has ended."""
        now = time.monotonic()
        if now - self._last > STALE_S:
            self._ended, self._since, self._per_second = 0, now, 0.0
        else:
            self._ended += 1
        self._last = now
        if (counted_s := now - self._since) >= COUNTED_S:
            self._per_second = self._ended / counted_s
            self._ended, self._since = 0, now

    @property
    def at_hand(self) -> int:
        """How many jobs, beyond those that run, will have been started in a moment."""
        if time.monotonic() - self._last > STALE_S:
            return 0
        return min(int(self._per_second * AT_HAND_S), MOST_AT_HAND)
