"""
Going on while the store is away.

A loop that meets `StoreUnavailable` waits, longer each time, and tries again; that the
store is away, and back, is told once for all loops. Anything else ends the worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from rowlock._chance import CHANCE
from rowlock._errors import OutcomeUnknown, StoreUnavailable
from rowlock._events.worker import StoreAway, StoreBack

if TYPE_CHECKING:
    from rowlock._worker.settings import Settings

T = TypeVar("T")

FIRST_DELAY_S = 0.05
LONGEST_DELAY_S = 5.0


class Outage:
    """Whether the store answers, as the loops of one worker see it."""

    def __init__(self, settings: Settings) -> None:
        self._worker = settings.worker
        self._extensions = settings.extensions
        self._since: float | None = None
        # Whether a write has failed; then a read that works is no end of it.
        self._is_of_writes = False

    def is_on(self) -> bool:
        """Tell whether the store was out of reach at the last call."""
        return self._since is not None

    @property
    def away_s(self) -> float:
        """For how long the store has been out of reach, in seconds; any thread."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def began(self, error: Exception, *, writing: bool = True) -> None:
        """Note a call that failed."""
        self._is_of_writes |= writing
        if self._since is None:
            self._since = time.monotonic()
            # A TimeoutError has no text.
            told = str(error) or "it gave no answer in time"
            self._extensions.emit(StoreAway(worker=self._worker, error=told))

    def ended(self, *, writing: bool = True) -> None:
        """Note a call that worked."""
        if self._since is None or (self._is_of_writes and not writing):
            return
        away = self.away_s
        self._since, self._is_of_writes = None, False
        self._extensions.emit(StoreBack(worker=self._worker, away_s=away))

    async def outlast(
        self,
        call: Callable[[], Awaitable[T]],
        *,
        until: float | None = None,
        writing: bool = True,
    ) -> T:
        """
        Make a call that is safe to repeat, until it works.

        Past the monotonic instant `until` the last error is raised.
        """
        while True:
            try:
                answer = await call()
            except (StoreUnavailable, OutcomeUnknown) as error:
                self.began(error, writing=writing)
                delay = self.pause()
                if until is not None:
                    delay = min(delay, until - time.monotonic())
                if delay <= 0:
                    raise
                await asyncio.sleep(delay)
            else:
                self.ended(writing=writing)
                return answer

    def pause(self) -> float:
        """
        Tell how long to wait before the next try, in seconds.

        The longer it has lasted, the longer; spread, or all workers of a store come
        back in the same instant.
        """
        longest = min(max(self.away_s, FIRST_DELAY_S), LONGEST_DELAY_S)
        return longest * CHANCE.uniform(0.5, 1)
