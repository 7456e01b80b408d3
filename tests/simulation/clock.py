"""The time of a simulation: it passes by leaps, and the wall clock may be set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """A `rowlock._clock.Clock`, moved by the loop; `time.monotonic` while it runs."""

    def __init__(self) -> None:
        self.time = 0.0
        self.ahead = 0.0
        # The last answer, which most ask for again, and when it was right.
        self._now = SOME_DAY
        self._now_at = 0.0

    def now(self) -> datetime:
        at = self.time + self.ahead
        if at != self._now_at:
            self._now, self._now_at = SOME_DAY + timedelta(seconds=at), at
        return self._now

    def monotonic(self) -> float:
        return self.time

    def jump(self, seconds: float) -> None:
        """Set the wall clock, while no time passes."""
        self.ahead += seconds
