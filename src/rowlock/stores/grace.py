"""
Law 17: when a store may hand the claims of others to its worker.

A store that was out of reach comes back for every worker at once, each with leases
that ran out meanwhile. Whoever recovers must give the holders time to renew: one
lease of connected writing. Shared by all stores, and needs nothing of them.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowlock._clock import Clock

_DEFAULT_LEASE = timedelta(seconds=300)

# A worker renews every 0.3 leases. Past a third it is late, but a thread that waits
# for its turn on a busy machine is late by that much too, which a short lease would
# take for an outage again and again. Together they stay below the 0.7 of a lease that
# every holder has left when an outage begins.
_SHARE = 1 / 3
_TURN = 0.5
_JUMP = 1.0  # seconds between the clocks; more than slewing does in a third of a lease

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Grace:
    """Whether this process has been connected for a whole lease."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lease = _DEFAULT_LEASE.total_seconds()
        self._since: float | None = None  # of the connected writing
        self._wrote_at = 0.0
        self._offset = 0.0  # of the wall clock to the monotonic one, when it wrote

    def learn(self, lease: timedelta) -> None:
        """Take the lease that this process works with."""
        with self._lock:
            self._lease = lease.total_seconds()

    def wrote(self) -> None:
        """Note that a write succeeded."""
        now, offset = self._read()
        with self._lock:
            if self._since is None or self._is_broken(now, offset):
                self._since = now
            self._wrote_at, self._offset = now, offset

    def is_over(self) -> bool:
        """Say whether claims whose lease is over may be recovered."""
        now, offset = self._read()
        with self._lock:
            return (
                self._since is not None
                and not self._is_broken(now, offset)
                and now - self._since >= self._lease
            )

    def _is_broken(self, now: float, offset: float) -> bool:
        longest = self._lease * _SHARE + min(_TURN, self._lease * _SHARE)
        return (
            now - self._wrote_at > longest
            # A suspended machine too: its monotonic clock stood still.
            or abs(offset - self._offset) > _JUMP
        )

    def _read(self) -> tuple[float, float]:
        now = self._clock.monotonic()
        return now, (self._clock.now() - _EPOCH).total_seconds() - now
