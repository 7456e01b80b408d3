"""
The seam by which everything in a store is copied: what stands in it, and its rows.

A store gives `Copying`: what stands in it, its jobs as rows, and a transaction that
takes them in. A row is a tuple in the order of `COLUMNS`, the same for every store.
What is refused, and what has to agree at the end, is no store's (`_copy.py`).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from rowlock._answers import Pause, TaskInfo, WorkerInfo
from rowlock._job import Status

INSTANTS: Final = (
    "run_at",
    "expires_at",
    "leased_until",
    "cancel_requested_at",
    "created_at",
    "started_at",
    "finished_at",
    "updated_at",
)
FLAGS: Final = ("alone", "abandoned", "suspect", "unrecoverable", "key_freed")
SPAN: Final = "idempotency_for"
TEXTS: Final = (
    "status",
    "queue",
    "task",
    "worker",
    "idempotency_key",
    "backoff",
    "last_error",
    "fingerprint",
    "progress",
    "meta",
    "errors",
    "state",
    "result",
    "payload",
)
# All that a job's row has; a test compares it with the tables. Instants are aware
# datetimes, flags are bools, a span is a timedelta, JSON is text.
COLUMNS: Final = (
    "id",
    *INSTANTS,
    *FLAGS,
    "timeout",
    "priority",
    "claims",
    "attempts",
    "failures",
    "losses",
    "max_attempts",
    "auto_replays",
    SPAN,
    *TEXTS,
)
STATUS: Final = COLUMNS.index("status")

Row: TypeAlias = tuple[Any, ...]
# A key that `once` was called with, and when.
Once: TypeAlias = tuple[str, datetime]

# A part of the jobs ends with so many of them, and sooner once they have so much.
PART_JOBS: Final = 100
PART_KEYS: Final = 1000
PART_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """
    What stands in a store.

    `place` is the same for two URLs of one store. `last_id` is the last id that was
    ever given, `days` how many days those that succeeded or were cancelled ended on,
    `workers` those that are live, `once` how many keys `once` remembers.
    """

    place: tuple[object, ...]
    counts: Mapping[Status, int]
    greatest_id: int
    last_id: int
    updated_at: datetime | None
    days: int
    workers: tuple[WorkerInfo, ...]
    pauses: tuple[Pause, ...]
    tasks: tuple[TaskInfo, ...]
    once: int

    @property
    def total(self) -> int:
        """How many jobs there are."""
        return sum(self.counts.values())

    @property
    def jobs(self) -> tuple[object, ...]:
        """What has to be equal where the jobs are."""
        return (dict(self.counts), self.greatest_id, self.updated_at)


class Damage(NamedTuple):
    """A column of a job in which a hand has written what no other store can hold."""

    job_id: int
    column: str


class Receiving(Protocol):
    """A transaction that takes jobs in; nobody else writes meanwhile."""

    async def survey(self) -> Survey:
        """Tell what will stand here once it is committed."""
        ...

    async def prepare(self, arriving: Survey) -> None:
        """Take its pauses and tasks, and give no id again that it has given."""
        ...

    async def add(self, jobs: Sequence[Row]) -> None:
        """Insert these jobs as they are."""
        ...

    async def remember(self, keys: Sequence[Once]) -> None:
        """Take these keys of `once`; one that came here, too, stays as it is."""
        ...


class Copying(Protocol):
    """How a store is copied, and copied to. The store is open."""

    @property
    def most_days(self) -> int | None:
        """On how many days jobs may have ended that are copied here; None: on any."""
        ...

    async def survey(self) -> Survey:
        """Tell what stands here now."""
        ...

    async def damaged(self, limit: int) -> Sequence[Damage]:
        """Name what no other store can hold, by id; at most `limit`."""
        ...

    def jobs(self) -> AsyncGenerator[Sequence[Row]]:
        """
        Give all jobs of one snapshot, in parts that fit in memory.

        At most `PART_JOBS` in one, and no more are read once they have `PART_BYTES`.
        """
        ...

    def once(self) -> AsyncGenerator[Sequence[Once]]:
        """Give all keys of `once`, in parts that fit in memory."""
        ...

    def at_rest(self) -> AbstractAsyncContextManager[Survey]:
        """Let nobody change a job here inside the block, and tell what stands here."""
        ...

    def receiving(self) -> AbstractAsyncContextManager[Receiving]:
        """Take jobs in, committed at the end of the block; an error leaves nothing."""
        ...


def size_of(row: Sequence[object]) -> int:
    """Tell how many bytes of memory a row's values take."""
    return sum(map(sys.getsizeof, row))
