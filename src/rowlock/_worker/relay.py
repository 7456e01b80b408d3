"""
Passing on what the watching thread has heard of claims.

Handlers that aren't on the loop hear of it at once, also where the loop is blocked. The
rest is for the loop: what the store calls lost is judged there, against what has ended
meanwhile, before anybody is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock._events.worker import ClaimLapsed
from rowlock._worker.report import of_attempt

if TYPE_CHECKING:
    from collections.abc import Collection

    from rowlock._cancelled import Reason
    from rowlock._job import ClaimKey
    from rowlock._store import Renewal
    from rowlock._worker.handlers import Handlers
    from rowlock._worker.outage import Outage
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings
    from rowlock._worker.watch import Watch


class Relay:
    """The way from the watching thread to the handlers of one worker."""

    def __init__(
        self,
        settings: Settings,
        runs: Runs,
        outage: Outage,
        handlers: Handlers,
        watch: Watch,
    ) -> None:
        self._emit = settings.extensions.emit
        self._runs = runs
        self._outage = outage
        self._handlers = handlers
        self._watch = watch

    def renewal(self, renewal: Renewal) -> None:
        """Pass on a renewal that worked."""
        lost = [key for key in renewal.lost if not self._is_asked(key)]
        self._signal(lost, "lost")
        self._watch.tell(self._renewed, lost)
        if renewal.cancelled:
            self.cancels(renewal.cancelled)

    def cancels(self, keys: Collection[ClaimKey]) -> None:
        """Pass on which claims were asked to cancel."""
        self._signal(keys, "cancel")
        self._watch.tell(self._stop, keys)

    def _signal(self, keys: Collection[ClaimKey], reason: Reason) -> None:
        for key in keys:
            run = self._runs.get(key)
            if run is not None and not run.has_ended:
                self._handlers.signal(run, reason)

    def _is_asked(self, key: ClaimKey) -> bool:
        """Whether it isn't held, perhaps, as its handler has recorded its success."""
        run = self._runs.get(key)
        return run is not None and run.is_asked

    def _renewed(self, lost: Collection[ClaimKey]) -> None:
        self._outage.ended()
        for key in lost:
            run = self._runs.get(key)
            # Ended: its outcome is on the way, and the answer to that will tell.
            if run is None or run.ended_at is not None:
                continue
            self._emit(
                ClaimLapsed(
                    **of_attempt(run.claim),
                    claim=key.claim,
                )
            )
            self._handlers.stop(run, "lost")

    def _stop(self, keys: Collection[ClaimKey]) -> None:
        for key in keys:
            run = self._runs.get(key)
            if run is not None:
                self._handlers.stop(run, "cancel")
