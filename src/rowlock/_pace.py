"""When each of very many replayed jobs is due, so that they don't come at once."""

from __future__ import annotations

import math
import time
from datetime import timedelta

from rowlock._durations import LONGEST, to_delay
from rowlock._errors import UsageError

# How long it may take to hand over a thousand jobs: by so much the first of them are
# later, or their time would be over when they are handed over, as they are the last.
HANDING_OVER = timedelta(seconds=0.25)
# The store reads its clock a moment after this one's was: between what is handed over
# at a time there is room for that.
UNSURE = timedelta(seconds=0.1)


class Pace:
    """
    Slots at even distance for a number of jobs, given out from the last to the first.

    They lie in time as they were when the first was given out, however long it takes
    to give out all; those whose time is over by then follow behind the last.
    """

    def __init__(self, count: int, step: timedelta, first: timedelta) -> None:
        # As floats: so many steps may be more than any timedelta.
        last = first.total_seconds() + count * step.total_seconds()
        if last > LONGEST.total_seconds():
            msg = (
                f"At this rate the last of {count:,} jobs would be due in more than a"
                " century: take a higher one."
            )
            raise UsageError(msg)
        self.step = step
        self._began: float | None = None
        self._first = first
        self._count = count
        # Counted from when the first was given out: what is free before, and behind.
        self._free_until = first + count * step
        self._behind = self._free_until

    @property
    def last(self) -> timedelta:
        """When the last of all slots is, from now."""
        return self._first + max(self._count - 1, 0) * self.step

    def take(self, count: int, *, of: int = 0) -> timedelta:
        """
        Take the last slots that are free; tell when the first of them is.

        `of` is how many jobs are handed over in all.
        """
        now = time.monotonic()
        if self._began is None:
            self._began = now
            if self.step:
                self._free_until += max(of - count, 0) / 1000 * (HANDING_OVER + UNSURE)
            self._behind = self._free_until + UNSURE
        elapsed = timedelta(seconds=now - self._began)
        start = self._free_until - count * self.step
        if start < elapsed and self.step:
            start = max(self._behind, elapsed)
            self._behind = start + count * self.step + UNSURE
        elif self.step:
            self._free_until = start - UNSURE
        return max(start - elapsed, timedelta(0))


def check_pace(
    rate: float | None, spread: float | timedelta | None
) -> tuple[float | None, timedelta | None]:
    """Read jobs a second, or the time that all of them are to be spread over."""
    if rate is not None and spread is not None:
        msg = "Say either rate= or spread=, not both."
        raise UsageError(msg)
    if rate is not None and not _is_rate(rate):
        msg = f"rate= takes a number of jobs a second above zero, not {rate!r}."
        raise UsageError(msg)
    return rate, None if spread is None else to_delay(spread, "spread=")


def _is_rate(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < math.inf


def step_of(rate: float | None, spread: timedelta | None, count: int) -> timedelta:
    """Tell how far apart so many jobs are due."""
    if rate is not None:
        return timedelta(seconds=min(1 / rate, LONGEST.total_seconds()))
    return (spread or timedelta(0)) / max(count, 1)
