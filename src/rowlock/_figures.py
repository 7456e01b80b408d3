"""Figures: what is counted for an operator who asks, as a seam of its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from rowlock._answers import Overview, QueueStats, TaskStats
from rowlock._job import Status

# More jobs than these before one aren't counted.
AHEAD_COUNTED = 10_000

# Over how long the rate of a queue is taken.
RATE_SPAN = timedelta(minutes=1)


class Place(NamedTuple):
    """
    Where a pending job stands: how many due jobs are claimed before it.

    Of those `by_priority` come first by theirs; both end at `AHEAD_COUNTED`. A suspect
    stands among suspects. `rate` is its queue's, as in `QueueStats`.
    """

    is_suspect: bool
    ahead: int
    by_priority: int
    rate: float


class Figures(Protocol):
    """
    What can be counted in a store, at a price that only who asks pays.

    It costs no more where a history is long: what is asked at night has an answer
    also where `Store.stats` takes too long.
    """

    async def now(self) -> datetime:
        """Tell the store's time, which its instants are compared with (law 14)."""
        ...

    async def overview(self) -> Overview:
        """Tell who is at work and what is paused. Reads no jobs but those that run."""
        ...

    async def due(self) -> Sequence[TaskStats]:
        """Count the jobs that are due, by queue and task."""
        ...

    async def place(
        self, job_id: int, *, queue: str, tasks: Collection[str]
    ) -> Place | None:
        """
        Tell where a job stands among the due ones of these tasks in its queue.

        None where it isn't pending in that queue, or not any more.
        """
        ...


def rates_of(ended: Iterable[tuple[str, int]]) -> Mapping[str, float]:
    """Tell the rate of each queue by how many of its jobs ended within `RATE_SPAN`."""
    return {queue: number / RATE_SPAN.total_seconds() for queue, number in ended}


def queues_of(
    counted: Iterable[tuple[str, str, int, int, datetime | None]],
    rates: Mapping[str, float],
) -> tuple[QueueStats, ...]:
    """
    Put together what stores count by queue and status, in any order.

    With each count come how many are due, and since when the oldest is.
    """
    counts: defaultdict[str, Counter[Status]] = defaultdict(Counter)
    due: dict[str, tuple[int, datetime | None]] = {}
    for queue, status, number, n_due, oldest in counted:
        counts[queue][Status(status)] += number
        if status == Status.PENDING:
            due[queue] = (n_due, oldest)
    return tuple(
        QueueStats(
            queue=queue,
            counts=dict(counts[queue]),
            due=due.get(queue, (0, None))[0],
            oldest_due=due.get(queue, (0, None))[1],
            rate=rates.get(queue, 0.0),
        )
        for queue in sorted(counts)
    )
