"""The clock of a machine that nobody has set right."""

from __future__ import annotations

from datetime import datetime, timedelta

from rowlock._clock import SystemClock


class OffClock(SystemClock):
    """This machine's clock, off by so much; its seconds are as long."""

    def __init__(self, off: timedelta) -> None:
        self._off = off

    def now(self) -> datetime:
        """Read it."""
        return super().now() + self._off
