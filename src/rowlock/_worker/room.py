"""What a worker has room for: of all queues together, and of each that has a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rowlock._worker.throughput import Throughput

if TYPE_CHECKING:
    from rowlock._worker.buffer import Buffer
    from rowlock._worker.runs import Runs
    from rowlock._worker.settings import Settings

LARGEST_CLAIM = 500


class Room:
    """
    The room of one worker.

    There is room for what runs at once, and for what will be started in a moment: that
    waits in the buffer, so that short jobs needn't wait for a claim each. A queue with
    a limit has none beyond it, so that whatever waits may be started next.
    """

    def __init__(self, settings: Settings, runs: Runs, buffer: Buffer) -> None:
        self._concurrency = settings.concurrency
        self._queues = settings.queues
        self._limits = settings.limits
        self._runs = runs
        self._buffer = buffer
        self._throughput = Throughput()

    def ended(self) -> None:
        """Note that a job has ended."""
        self._throughput.ended()

    @property
    def has_place(self) -> bool:
        """Whether another handler may start."""
        return self._runs.held < self._concurrency

    @property
    def is_idle(self) -> bool:
        """Whether the worker holds nothing, or only what is stuck."""
        return not self._runs.live and not self._buffer

    def left(self) -> int:
        """Tell how many jobs to claim now."""
        places = max(self._concurrency - self._runs.held, 0)
        # One at a time is to be alone, so that its loss tells whose fault it was.
        at_hand = 0 if self._concurrency == 1 else self._throughput.at_hand
        waiting = len(self._buffer)
        # Not for each that is started: a claim of many costs little more than of one.
        if not places and 2 * waiting > at_hand:
            return 0
        left = min(places + at_hand - waiting, LARGEST_CLAIM)
        of_queues = self.of_queues(left)
        return left if of_queues is None else min(left, sum(of_queues.values()))

    def of_queues(self, most: int) -> Mapping[str, int] | None:
        """Tell how many, of so many at most, each queue may give; None: any queue."""
        if self._queues is None:
            return None
        # Those without room too: a store that looks at all of its queues now and then
        # would leave them out, and may have to each time (law 19).
        return {
            queue: max(min(most, self._of(queue, most)), 0) for queue in self._queues
        }

    def bounded(self, most: int) -> frozenset[str]:
        """Name the queues that may give fewer than so many, for their limits."""
        return frozenset(
            queue for queue in self._limits if self._of(queue, most) < most
        )

    def _of(self, queue: str, otherwise: int) -> int:
        limit = self._limits.get(queue)
        if limit is None:
            return otherwise
        return limit - self._runs.of_queue(queue) - self._buffer.of_queue(queue)
