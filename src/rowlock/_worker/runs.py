"""
What a worker holds: one `Run` per claim, from the claim until its outcome is written.

The loop's thread changes it; the renewal's thread reads it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rowlock import _attempt
from rowlock._attempt import Attempt
from rowlock._cancelled import Reason
from rowlock._job import Claim, ClaimKey

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from rowlock._attempt import Desk
    from rowlock._signals import Made
    from rowlock._task import Task


class Run:
    """A claim, its handler, and how far it has come."""

    __slots__ = (
        "asyncio_task",
        "attempt",
        "claim",
        "ended_at",
        "is_settled",
        "is_told",
        "made",
        "no_later_than",
        "returned_at",
        "started_at",
        "swallowed",
        "task",
        "timer",
    )

    def __init__(
        self,
        claim: Claim,
        task: Task[..., Any],
        timeout: float,
        *,
        desk: Desk,
        max_payload: int,
    ) -> None:
        self.claim = claim
        self.task = task
        self.started_at = time.monotonic()
        # None until the handler has ended or was given up.
        self.ended_at: float | None = None
        # When its handler came to its end elsewhere, of which the loop may hear late.
        self.returned_at: float | None = None
        self.no_later_than = self.started_at + timeout if timeout else None
        self.asyncio_task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        # Whether the handler was told to stop, beyond what the signal says.
        self.is_told = False
        # Whether its outcome is written already, so that what comes of it is dropped.
        self.is_settled = False
        # The signals its handler has made, and in the end those that ended nothing.
        self.made: list[Made] = []
        self.swallowed: tuple[str, ...] = ()
        self.attempt = Attempt(
            job_id=claim.key.job_id,
            task=claim.task,
            queue=claim.queue,
            number=claim.attempts,
            failures=claim.failures,
            is_last=claim.failures + 1 >= claim.max_attempts,
            deadline=claim.started_at + timedelta(seconds=timeout) if timeout else None,
            idempotency_key=claim.idempotency_key or f"{claim.task}:{claim.job_id}",
            key=claim.key,
            saved=claim.state,
            max_payload=max_payload,
            desk=desk,
        )

    @property
    def key(self) -> ClaimKey:
        """Which claim this is."""
        return self.claim.key

    @property
    def reason(self) -> Reason | None:
        """Why the handler should stop, None while it should go on."""
        return self.attempt.cancelled.reason

    @property
    def ran_s(self) -> float:
        """For how long the handler ran, or has run so far, in seconds."""
        for ended_at in (self.returned_at, self.ended_at):
            if ended_at is not None:
                return ended_at - self.started_at
        return time.monotonic() - self.started_at

    def is_renewed(self, now: float, lease_s: float) -> bool:
        """
        Tell whether its lease is still extended, at a monotonic instant.

        Until its timeout, unless it came to its end before, and the loop is to hear of
        it; and when it has ended, for a lease in which its outcome may be written,
        however long the store takes over that.
        """
        if self.ended_at is not None:
            # What its own transaction holds needs no lease, and nobody is to wait.
            return not self.is_asked and now < self.ended_at + lease_s
        if self.no_later_than is None or self.returned_at is not None:
            return True
        return now <= self.no_later_than

    def is_to_time_out(self) -> bool:
        """Tell whether it runs past its timeout, and nobody has noted that."""
        return self.is_overdue() and not self.has_ended and not self.is_settled

    @property
    def has_ended(self) -> bool:
        """Whether its handler has ended, or nobody waits for it; for any thread."""
        return self.ended_at is not None or self.returned_at is not None

    @property
    def is_lent(self) -> bool:
        """Whether a transaction of its handler's may have the row; any thread."""
        return _attempt.completion(self.attempt).is_lent

    @property
    def is_asked(self) -> bool:
        """Whether its handler may have recorded a success; any thread may ask."""
        return _attempt.completion(self.attempt).is_asked

    @is_asked.setter
    def is_asked(self, is_asked: bool) -> None:
        _attempt.completion(self.attempt).is_asked = is_asked

    @property
    def is_open(self) -> bool:
        """Whether that transaction had the row, as it was asked last."""
        return _attempt.completion(self.attempt).is_open

    @is_open.setter
    def is_open(self, is_open: bool) -> None:
        _attempt.completion(self.attempt).is_open = is_open

    def ended_again(self) -> float:
        """Note, and give, when it became known what it came to: now."""
        self.returned_at = self.returned_at or self.ended_at
        self.ended_at = time.monotonic()
        return self.ended_at

    def begin(self, timeout: float) -> None:
        """Note that its handler begins only now."""
        self.started_at = time.monotonic()
        self.no_later_than = self.started_at + timeout if timeout else None

    def is_overdue(self) -> bool:
        """Tell whether it runs, or has just ended, past its timeout."""
        return self.no_later_than is not None and time.monotonic() > self.no_later_than

    def stop(self, reason: Reason) -> None:
        """Tell the handler to stop; an async one is cancelled as well."""
        self.is_told = True
        self.attempt.cancelled.set(reason)
        if self.asyncio_task is not None:
            self.asyncio_task.cancel()

    def end(self) -> None:
        """Note that the handler has ended, or that nobody waits for it any more."""
        self.ended_at = time.monotonic()
        if self.timer is not None:
            self.timer.cancel()


class Runs:
    """
    All runs of a worker.

    A handler that can't be stopped is given up: its place is free, and it is stuck
    until it ends. Past `max_stuck` of them each holds its place, or threads would grow
    without a bound.
    """

    def __init__(
        self,
        on_room: Callable[[str], None],
        on_stuck: Callable[[], None],
        *,
        max_stuck: int,
    ) -> None:
        self._runs: dict[ClaimKey, Run] = {}
        self._live = 0
        self._queues: Counter[str] = Counter()
        self._stuck: dict[ClaimKey, Run] = {}
        self.left: set[ClaimKey] = set()
        """Claims that were started, and are left to their lease: few, if any."""
        self._on_room = on_room
        self._on_stuck = on_stuck
        self._max_stuck = max_stuck

    @property
    def live(self) -> int:
        """How many handlers run, without those that are stuck."""
        return self._live

    @property
    def held(self) -> int:
        """How many places are taken."""
        return self._live + max(len(self._stuck) - self._max_stuck, 0)

    def of_queue(self, queue: str) -> int:
        """Tell how many handlers of a queue run, without those that are stuck."""
        return self._queues[queue]

    @property
    def stuck(self) -> tuple[Run, ...]:
        """Those that were given up and run on, the longest first; for any thread."""
        return tuple(self._stuck.values())

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, key: object) -> bool:
        return key in self._runs

    def __iter__(self) -> Iterator[Run]:
        # A copy in one step: the renewal's thread iterates while the loop's changes.
        return iter(tuple(self._runs.values()))

    def get(self, key: ClaimKey) -> Run | None:
        """Find a run, None where it is over."""
        return self._runs.get(key)

    def add(self, run: Run) -> None:
        """Hold a claim whose handler is about to start."""
        self._runs[run.key] = run
        self._live += 1
        self._queues[run.claim.queue] += 1

    def end(self, run: Run) -> bool:
        """Note that a handler has ended; False where that is known already."""
        if run.ended_at is not None:
            return False
        run.end()
        self._live -= 1
        self._queues[run.claim.queue] -= 1
        self._on_room(run.claim.queue)
        return True

    def give_up(self, run: Run) -> None:
        """Note that a handler can't be stopped, before its end is noted."""
        self._stuck[run.key] = run
        self._on_stuck()

    def is_over(self, run: Run) -> None:
        """Note that a handler that was given up has come to its end."""
        if self._stuck.pop(run.key, None) is not None:
            self._on_stuck()
            self._on_room(run.claim.queue)

    def drop(self, key: ClaimKey) -> None:
        """Hold a claim no longer: its outcome is written, or it is somebody else's."""
        self._runs.pop(key, None)

    def leave(self, key: ClaimKey) -> None:
        """Leave a claim to its lease, as its outcome can't be written."""
        self.drop(key)
        self.left.add(key)
