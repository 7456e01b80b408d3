"""
How often a sleeper looks for itself where nobody can tell it of news.

Soon at first, for work seldom comes alone; more and more seldom while nothing is found.
"""

from __future__ import annotations

from datetime import timedelta

from rowlock._chance import CHANCE

SOONEST = 2.0  # seconds, unless said
LATEST = 30.0
# What is taken off each pause, or all that lost a server in one instant would look in
# one instant from then on.
SPREAD = 0.25


class Polling:
    """The polls of one sleeper."""

    def __init__(self, interval: timedelta | None = None) -> None:
        soonest = SOONEST if interval is None else interval.total_seconds()
        self._soonest = self._pause = soonest
        self._latest = max(soonest, LATEST)
        self._finds = 0

    def pause(self, finds: int) -> timedelta:
        """Tell how long to sleep, where so many claims have found work until now."""
        if finds != self._finds:
            self._finds, self._pause = finds, self._soonest
        spread = CHANCE.uniform(1 - SPREAD, 1)
        return timedelta(seconds=self._pause * spread)

    def slept(self) -> None:
        """Note that a pause was slept to its end."""
        self._pause = min(2 * self._pause, self._latest)
