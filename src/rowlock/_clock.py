"""
The clock that a store reads, so that tests can move it.

Nothing else tells the time of a job: durations go into a store, instants come out.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is written, monotonic seconds for how long something took."""

    def now(self) -> datetime:
        """Tell the time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Tell seconds that only grow, whatever the wall clock does."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Tell the time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Tell seconds that only grow, whatever the wall clock does."""
        return time.monotonic()
