"""
Durations and instants at the door.

A duration is a number of seconds or a `timedelta`; an instant is an aware
`datetime`. What is naive, negative or endless is refused with the name of the
argument it came in by.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from rowlock._errors import UsageError

# A century: longer is a mistake of units, and the sum stays inside datetime's range.
LONGEST = timedelta(days=36_525)

_TEN, _MINUTE, _HOUR, _DAY = 10, 60, 3600, 86_400


def to_delay(value: float | timedelta, argument: str) -> timedelta:
    """Read a duration of zero or more; `argument` names it in the refusal."""
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        msg = f"{argument} takes seconds (int, float) or a timedelta, not {value!r}."
        raise UsageError(msg)
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    try:
        finite = math.isfinite(seconds)
    except OverflowError:  # an int too large for a float
        finite = False
    if not finite:
        msg = f"{argument} takes a finite number of seconds, not {value!r}."
        raise UsageError(msg)
    if seconds < 0:
        msg = f"{argument} can't be negative; it was {seconds:g} s."
        raise UsageError(msg)
    if seconds > LONGEST.total_seconds():
        msg = f"{argument} can't be longer than a century; it was {seconds:g} s."
        raise UsageError(msg)
    return value if isinstance(value, timedelta) else timedelta(seconds=value)


def to_instant(value: datetime, argument: str) -> datetime:
    """Read an aware datetime as UTC; `argument` names it in the refusal."""
    if not isinstance(value, datetime):
        msg = f"{argument} takes an aware datetime, not {value!r}."
        raise UsageError(msg)
    if value.utcoffset() is None:
        msg = (
            f"{argument} takes an aware datetime, and {value.isoformat()} has no time"
            " zone: write datetime.now(UTC), or set one with .replace(tzinfo=...)."
        )
        raise UsageError(msg)
    return value.astimezone(UTC)


def iso(instant: datetime) -> str:
    """
    Write an instant exactly, in UTC, as every output of Rowlock does.

        >>> iso(datetime(2026, 1, 1, tzinfo=UTC))
        '2026-01-01T00:00:00.000000Z'
    """
    told = instant.astimezone(UTC).isoformat(timespec="microseconds")
    return told.replace("+00:00", "Z")


def relative(instant: datetime, now: datetime) -> str:
    """
    Say how far away an instant is.

        >>> from datetime import UTC
        >>> now = datetime(2026, 1, 1, tzinfo=UTC)
        >>> relative(datetime(2026, 1, 1, 0, 0, 40, tzinfo=UTC), now)
        'in 40 s'
        >>> relative(datetime(2025, 12, 31, 23, 57, tzinfo=UTC), now)
        '3 min ago'
    """
    seconds = (instant - now).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def span(seconds: float) -> str:
    """
    Say how long something takes, in one unit.

        >>> [span(s) for s in (0.0042, 1.25, 40, 150, 7200, 200_000)]
        ['4.2 ms', '1.2 s', '40 s', '2 min', '2 h', '2 d']
    """
    if seconds < 1:
        return f"{_short(seconds * 1000)} ms"
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{_short(seconds)} s"


def _short(number: float) -> str:
    """Write a number with the one digit behind the point that may matter."""
    return f"{number:.1f}".removesuffix(".0") if number < _TEN else f"{number:.0f}"
