"""When each of very many replayed jobs is due, so that they don't come at once."""

from __future__ import annotations

import math
import time
from datetime import timedelta

from rowlock._durations import LONGEST, to_delay
from rowlock._errors import UsageError


class Pace:
    """
    Slots at even distance for a number of jobs, given out from the last to the first.

    They lie in time as they were when the first was given out, however long it takes
    to give out all.
    """

    def __init__(self, count: int, step: timedelta, first: timedelta) -> None:
        if first + count * step.total_seconds() * timedelta(seconds=1) > LONGEST:
            msg = (
                f"At this rate the last of {count:,} jobs would be due in more than a"
                " century: take a higher one."
            )
            raise UsageError(msg)
        self.step = step
        self._left = count
        self._first = first
        self._began: float | None = None

    def take(self, count: int) -> timedelta:
        """Take the last slots that are left; tell when the first of them is."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        self._left -= count
        elapsed = timedelta(seconds=now - self._began)
        return max(self._first + self._left * self.step - elapsed, timedelta(0))


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
