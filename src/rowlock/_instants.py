"""Instants and spans of time as people read them, and as programs do."""

from __future__ import annotations

from datetime import datetime

TEN, MINUTE, HOUR, DAY = 10, 60, 3600, 86_400


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
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{_short(seconds)} s"


def _short(number: float) -> str:
    """Write a number with the one digit behind the point that may matter."""
    return f"{number:.1f}".removesuffix(".0") if number < TEN else f"{number:.0f}"
