"""
When a worker runs a suspect: alone, so that the next loss tells whose fault it was.

A worker that holds nothing takes one at once. One that is never without work stops
claiming for it, where it is the one that the store has chosen and the wait has lasted
for the safety interval; then it serves the others for as long again, however many
suspects there are.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowlock._store import Claimed


class Suspects:
    """What one worker knows of suspects; instants are the store's."""

    def __init__(self, patience: timedelta) -> None:
        self._patience = patience
        self._overdue_at: datetime | None = None
        self._tried = False
        # When it last went on with the others, after it had tried to have a suspect.
        self._resumed_at: datetime | None = None
        self.is_waiting = False
        """Whether one was due at the last claim, for whoever holds nothing."""
        self.is_overdue = False
        """Whether this worker is to stop claiming until it has it."""

    def told(self, claimed: Claimed) -> None:
        """Learn of those that a claim has passed by."""
        if self._tried:
            self._resumed_at, self._tried = claimed.now, False
        self.is_waiting = claimed.suspect_since is not None
        self._overdue_at = None
        if claimed.chosen_since is not None:
            since = claimed.chosen_since
            if self._resumed_at is not None:
                since = max(since, self._resumed_at)
            self._overdue_at = since + self._patience
        self.is_overdue = (
            self._overdue_at is not None and claimed.now >= self._overdue_at
        )

    def tried(self) -> None:
        """Note that this worker held nothing, and asked for one."""
        self._tried = True
        self.is_waiting = self.is_overdue = False

    def overdue_in(self, now: datetime) -> timedelta | None:
        """Tell in what time this worker is to stop for one, None where it isn't."""
        if self._overdue_at is None or self.is_overdue:
            return None
        return self._overdue_at - now
