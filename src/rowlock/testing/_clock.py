"""A clock that stands still until it is moved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from rowlock._durations import to_instant

_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """
    A clock that stands still until it is moved.

    Hand it to `App(clock=)`; whoever sleeps on the store is woken when it moves.

        >>> clock = FakeClock()
        >>> before = clock.now()
        >>> clock.advance(90)
        >>> (clock.now() - before).total_seconds()
        90.0
    """

    def __init__(self, now: datetime | None = None) -> None:
        self._now = to_instant(now, "now=") if now else _SOME_DAY
        self._monotonic = 0.0
        self._listeners: list[Callable[[], None]] = []

    def now(self) -> datetime:
        """Tell the time that it was moved to."""
        return self._now

    def monotonic(self) -> float:
        """Tell the seconds that `advance` has added so far."""
        return self._monotonic

    def advance(self, seconds: float | timedelta) -> None:
        """Let time pass."""
        if not isinstance(seconds, timedelta):
            seconds = timedelta(seconds=seconds)
        self._now += seconds
        self._monotonic += seconds.total_seconds()
        self._tell()

    def jump(self, seconds: float | timedelta) -> None:
        """Set the wall clock, forwards or back, while no time passes."""
        if not isinstance(seconds, timedelta):
            seconds = timedelta(seconds=seconds)
        self._now += seconds
        self._tell()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever the clock is moved; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
