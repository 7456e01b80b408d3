"""
What is claimed and not started: work at hand, so that few handlers wait for a claim.

What isn't started in a moment is given back, in the thread that no handler can starve:
the one that blocks the loop would be the one that holds it up. So is a claim whose
answer the loop doesn't hear, for the same reason or as it was lost.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rowlock import _outcome
from rowlock._errors import OutcomeUnknown, StoreError
from rowlock._job import Status
from rowlock._worker.report import ended_unstarted
from rowlock._worker.room import LARGEST_CLAIM

if TYPE_CHECKING:
    from rowlock._job import Claim, ClaimKey
    from rowlock._store import Claimed, Settled
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings

# How long a claim may wait to be started, and the loop be blocked before the watch asks
# what was claimed. It isn't renewed meanwhile: a share of the lease at most.
LONGEST_WAIT_S = 0.4
SHARE_OF_LEASE = 0.25
LOOK_S = 0.25
# While the loop stays blocked: the claim may have come to the store only then.
LOOK_AGAIN_S = 1.0


class Waiting(NamedTuple):
    """A claim, and the monotonic instant until which it may be started."""

    claim: Claim
    until: float


class Buffer:
    """The claims of one worker that wait to be started, or go back; for any thread."""

    def __init__(
        self, settings: Settings, runs: Runs, blocked_s: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._store = settings.store
        self._runs = runs
        self._blocked_s = blocked_s
        self._longest_s = min(LONGEST_WAIT_S, settings.lease_s * SHARE_OF_LEASE)
        self._lock = threading.Lock()
        self._waiting: deque[Waiting] = deque()
        self._queues: Counter[str] = Counter()
        # Those that go back, until the store has them.
        self._returning: dict[ClaimKey, Claim] = {}
        # Of these, those that a write without an answer may have given back.
        self._unsure: set[ClaimKey] = set()
        # When the claim under way was asked for, monotonic; None: there is none.
        self._asked_at: float | None = None
        self._looked_at = -math.inf
        # Claims that go back, and of which an answer under way may tell yet.
        self._refused: set[ClaimKey] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def held(self) -> list[Claim]:
        """Give what is claimed and not started, or not given back yet."""
        with self._lock:
            waiting = [each.claim for each in self._waiting]
            return [*waiting, *self._returning.values()]

    def of_queue(self, queue: str) -> int:
        """Tell how many of a queue wait."""
        return self._queues[queue]

    def asks(self) -> None:
        """Note that more is being claimed."""
        self._asked_at = time.monotonic()

    def hears_nothing(self) -> None:
        """Note that what was asked for is over without an answer."""
        with self._lock:
            self._asked_at = None
            self._refused.clear()

    def add(self, claimed: Claimed) -> None:
        """Have what was claimed wait, in the order given."""
        now = time.monotonic()
        with self._lock:
            asked_at, self._asked_at = self._asked_at, None
            if not claimed.claims:
                return
            ends_at = (now if asked_at is None else asked_at) + self._settings.lease_s
            until = min(now + self._longest_s, ends_at)
            for claim in claimed.claims:
                if claim.key not in self._refused:
                    self._waiting.append(Waiting(claim, until))
                    self._queues[claim.queue] += 1
            self._refused.clear()
            # The lease may be over, and the job somebody else's.
            self._return_stale()

    def take(self) -> Claim | None:
        """Take the next to start; None where there is none."""
        with self._lock:
            self._return_stale()
            return self._pop() if self._waiting else None

    def give_up(self) -> None:
        """Have everything go back that waits."""
        with self._lock:
            while self._waiting:
                self._return()

    async def refuse_unheard(self) -> Sequence[Claim]:
        """
        Have claims go back that the store says are held, and nobody will hear of.

        Gives all that the store says.

        Raises:
            StoreError: ask again.
        """
        asked_at = self._asked_at
        known = len(self._runs) + len(self._runs.left) + len(self.held())
        held = await self._store.lost(
            known + LARGEST_CLAIM, worker=self._settings.worker
        )
        self.refuse_unknown(held, asked_at)
        return held

    def refuse_unknown(
        self, held: Iterable[Claim], asked_at: float | None = None
    ) -> None:
        """
        Have claims go back that the worker holds, and was never told of.

        Not if a claim is under way that may tell of them, unless it is the one that was
        asked for at this instant.
        """
        runs = self._runs
        with self._lock:
            if self._asked_at != asked_at:
                return
            waiting = {each.claim.key for each in self._waiting}
            for claim in held:
                key = claim.key
                # What is left has had its start: its outcome was dropped.
                if key not in runs and key not in runs.left and key not in waiting:
                    self._refused.add(key)
                    self._returning[key] = claim

    async def turn(self) -> float:
        """Give back what waits for too long; tell how long until the next look."""
        with self._lock:
            self._return_stale()
        with contextlib.suppress(StoreError):  # the renewal tells that it is away
            if self._is_unheard():
                self._looked_at = time.monotonic()
                await self.refuse_unheard()
            await self.give_back()
        return LOOK_S

    async def give_back(self) -> None:
        """
        Give back what goes back, unstarted.

        Raises:
            StoreError: it will go with the next try.
        """
        with self._lock:
            keys = list(self._returning)
        if not keys:
            return
        released = [_outcome.released(key, unstarted=True) for key in keys]
        try:
            answers = await self._store.finish(released)
        except OutcomeUnknown:
            with self._lock:
                self._unsure.update(keys)
            raise
        ended = [self._let_go(answer) for answer in answers if not answer.is_locked]
        for claim in filter(None, ended):
            self._settings.extensions.emit(ended_unstarted(claim))

    def _let_go(self, settled: Settled) -> Claim | None:
        """Let go of a claim; give it where its job ended, as its cancel was asked."""
        with self._lock:
            claim = self._returning.pop(settled.key, None)
            was_written = settled.key in self._unsure
            self._unsure.discard(settled.key)
        is_ours = settled.accepted or (
            was_written and settled.claims == settled.key.claim
        )
        return claim if is_ours and settled.status is Status.CANCELLED else None

    def _is_unheard(self) -> bool:
        """Tell whether a claim's answer may wait for a loop that is blocked."""
        looked_s = time.monotonic() - self._looked_at
        is_blocked = self._blocked_s() > self._longest_s
        return self._asked_at is not None and is_blocked and looked_s > LOOK_AGAIN_S

    def _return_stale(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0].until <= now:
            self._return()

    def _return(self) -> None:
        claim = self._pop()
        self._returning[claim.key] = claim

    def _pop(self) -> Claim:
        claim = self._waiting.popleft().claim
        self._queues[claim.queue] -= 1
        return claim
