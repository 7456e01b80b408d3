"""
When to wake who sleeps, after news of another process: at once, or a moment later.

News are told to every worker, and one of them gets the job: of forty idle ones, 39
would look for nothing. So one whose looks find nothing, as others were quicker, lets
them be quicker still, for longer each time, until it finds something again. As these
moments are chance, somebody is soon there where the quick ones have no room.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

from rowlock._chance import CHANCE
from rowlock.stores.postgres import notify
from rowlock.stores.postgres.bounds import Arrival

# Seconds at most, after so many looks in a row that found nothing. Long soon: each of
# the first ones is a look for nothing as well.
PAUSES = (0.0, 0.02, 0.1, 0.5)


class Hearing:
    """What one process hears of others: told from one thread, it looks in any."""

    def __init__(
        self,
        note: Callable[[Sequence[Arrival] | None], bool],
        tell: Callable[[], None],
    ) -> None:
        # Takes news, None is that there may be anything; whether they concern us.
        self._note = note
        self._tell = tell
        self._lock = threading.Lock()
        self._tell_at: float | None = None
        self._is_contested = False
        self._misses = 0
        # Whether the next look shows who was quicker.
        self._awaits_look = False

    def hear(self, payload: str | None) -> None:
        """Hear of news; None is that some may have been missed."""
        arrivals = None if payload is None else notify.read(payload)
        if not self._note(arrivals):
            return
        if arrivals is None:
            self._tell()
            return
        with self._lock:
            self._is_contested |= any(map(_is_due, arrivals))
            if self._tell_at is None:
                self._tell_at = time.monotonic() + self._pause()
        self.tell_due()

    def lost(self) -> None:
        """Have all look for themselves: nothing is heard from now on."""
        with self._lock:
            self._tell_at = None
        self._tell()

    def seconds_left(self) -> float:
        """Tell in how many seconds to call `tell_due`."""
        with self._lock:
            at = self._tell_at
        return math.inf if at is None else at - time.monotonic()

    def tell_due(self) -> None:
        """Wake who sleeps, where it is time."""
        with self._lock:
            if self._tell_at is None or time.monotonic() < self._tell_at:
                return
            self._tell_at = None
            self._awaits_look |= self._is_contested
            self._is_contested = False
        self._tell()

    def looked(self, *, found: bool) -> None:
        """Hear what a claim came to."""
        with self._lock:
            if found:
                self._misses = 0
            elif self._awaits_look:
                self._misses += 1
            self._awaits_look = False

    def _pause(self) -> float:
        longest = PAUSES[min(self._misses, len(PAUSES) - 1)]
        return CHANCE.uniform(0, longest)


def _is_due(arrival: Arrival) -> bool:
    """Say whether a job came that is due at once."""
    return arrival.deferred_at is None or arrival.first_at < arrival.deferred_at
