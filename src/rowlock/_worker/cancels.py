"""
Hearing of cancels of running jobs, within a second.

A look at what runs, not a notification: it costs one read by id, can't be lost, and
works through any pooler. What ends sooner than a look is due costs none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from rowlock._errors import StoreError

if TYPE_CHECKING:
    from rowlock._job import ClaimKey
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings

PAUSE_S = 0.5
# Most handlers have ended by then.
FIRST_AFTER_S = 0.1


class Cancels:
    """The look for cancels of one worker."""

    def __init__(
        self,
        settings: Settings,
        runs: Runs,
        *,
        on_cancels: Callable[[Collection[ClaimKey]], None],
    ) -> None:
        self._store = settings.store
        self._runs = runs
        self._on_cancels = on_cancels

    async def turn(self) -> float:
        """Look once; tell how long to wait before the next time."""
        keys = [
            run.key
            for run in self._runs
            if not run.has_ended and run.reason is None and run.ran_s > FIRST_AFTER_S
        ]
        if keys:
            try:
                asked = await self._store.cancel_requested(keys)
            except StoreError:
                return PAUSE_S  # the renewal tells that the store is away
            if asked:
                self._on_cancels(asked)
        return PAUSE_S
