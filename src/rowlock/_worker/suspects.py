"""
When a worker runs a suspect: alone, so that the next loss tells whose fault it was.

A worker that holds nothing takes one at once. One that is never without work gives way,
which is to claim nothing until it has it, where it is the one that the store has chosen
and the wait has lasted for the safety interval. Then it serves the others for as long
again, however many suspects there are.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowlock._store import Claimed

# Two sums of the same seconds may differ, and a sleep of nothing would be no sleep.
SLACK_S = 0.001


class Suspects:
    """What one worker knows of suspects; instants are of its monotonic clock."""

    def __init__(self, safety_interval: timedelta) -> None:
        self._patience_s = safety_interval.total_seconds()
        self._looked_at = -math.inf
        self._was_full = False
        self._overdue_at = math.inf
        self._has_tried = False
        # When it last went on with the others, after it had asked for a suspect.
        self._resumed_at = -math.inf
        self.is_waiting = False
        """Whether one was due at the last claim, for whoever holds nothing."""

    def told(self, claimed: Claimed, now: float) -> None:
        """Learn of those that a claim has passed by."""
        self._looked_at, self._was_full = now, False
        if self._has_tried:
            self._resumed_at, self._has_tried = now, False
        self.is_waiting = claimed.suspect_since is not None
        self._overdue_at = math.inf
        if claimed.chosen_since is not None:
            since = now - (claimed.now - claimed.chosen_since).total_seconds()
            self._overdue_at = max(since, self._resumed_at) + self._patience_s

    def had_no_room(self) -> None:
        """Note that this worker can't look for now."""
        self._was_full = True

    def tried(self) -> None:
        """Note that this worker held nothing, and asked for one."""
        self._has_tried, self.is_waiting, self._overdue_at = True, False, math.inf

    def gives_way(self, now: float) -> bool:
        """
        Tell whether this worker is to look, and claim nothing.

        One that had no room for long looks first: else it would take another long job
        before it hears that it should have given way. But after a suspect it is the
        others' turn.
        """
        if self._has_tried:
            return False
        was_full_for_long = self._was_full and now - self._looked_at >= self._patience_s
        return was_full_for_long or self.overdue_in(now) <= SLACK_S

    def overdue_in(self, now: float) -> float:
        """Tell in how many seconds this worker is to give way; infinite: never."""
        return self._overdue_at - now
