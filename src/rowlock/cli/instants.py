"""Instants and spans of time as people read them, and as programs do."""

from __future__ import annotations

from datetime import datetime

from rowlock._durations import span


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
