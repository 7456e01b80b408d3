"""
Dead letters as groups, and their automatic replay: a seam of its own.

A group is one task's dead letters with one fingerprint. The rules of automatic replay
are an app's; the store keeps who has the turn with each, and what its probe said last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rowlock._answers import DeadGroup
from rowlock._fingerprint import same_words
from rowlock._job import JSON

if TYPE_CHECKING:
    from rowlock._answers import Answer

# How often a job is replayed automatically, at most: what dies a third time of the same
# thing wants a person.
MOST_REPLAYS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRule:
    """
    While `probe` passes, dead letters of `task` are replayed: `limit` each `every`.

    They are due `rate` a second.
    """

    task: str
    probe: Callable[[], object] = field(repr=False)
    every: timedelta
    limit: int
    rate: float

    @property
    def pace(self) -> timedelta:
        """How long after each other two jobs are due."""
        return timedelta(seconds=1 / self.rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayState:
    """
    A rule as operators see it, with what its probe said last.

    `replayed` is how many jobs went back then, and `error` why it didn't pass, where it
    said so. What is None hasn't happened yet.
    """

    task: str
    every: timedelta
    limit: int
    rate: float
    turn_at: datetime | None = None
    worker: str | None = None
    probed_at: datetime | None = None
    passed: bool | None = None
    error: str | None = None
    replayed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What a probe said in one worker's turn, and how many jobs were replayed."""

    task: str
    worker: str
    passed: bool
    error: str | None
    replayed: int


class Turn(NamedTuple):
    """Whether the turn is this worker's, and how long it is until the next."""

    is_ours: bool
    next_in: timedelta


class DeadLetters(Protocol):
    """What is asked of dead letters as groups, and their automatic replay."""

    async def groups(
        self, *, task: str | None, queue: str | None, limit: int
    ) -> Sequence[DeadGroup]:
        """Group dead letters, those that were last seen newest first."""
        ...

    async def take_turn(self, rule: ReplayRule, *, worker: str) -> Turn:
        """
        Take the turn with a rule; one worker has it, until `rule.every` has passed.

        Whoever has it is asked for nothing: where it dies, the next turn is another's.
        """
        ...

    async def replayable(self, task: str, *, limit: int) -> Sequence[int]:
        """
        Give the ids of dead letters that may be replayed automatically, oldest first.

        None that was so MOST_REPLAYS times, that its handler gave up for good, whose
        key an unfinished job holds, or beside which there is a newer one of its key.
        """
        ...

    async def replay(
        self, ids: Sequence[int], *, by: str, pace: timedelta
    ) -> Sequence[Answer]:
        """
        Replay dead letters as `Store.replay` does, and count that in their rows.

        One that was so MOST_REPLAYS times stays. The count is noted behind `by`.
        """
        ...

    async def tell(self, probed: Probed) -> bool:
        """Note what a probe said; False: the turn is another worker's by now."""
        ...

    async def rules(self) -> Sequence[ReplayState]:
        """Tell the rules of which a worker has had the turn, by task."""
        ...


def read_group(
    fingerprint: str | None,
    task: str,
    *,
    count: int,
    seen: tuple[datetime, datetime],
    newest: int,
    entry: Mapping[str, JSON],
) -> DeadGroup:
    """Make a group of what a store counts, and the newest job's last error."""
    version = entry.get("version")
    return DeadGroup(
        fingerprint=fingerprint,
        task=task,
        error=same_words(entry) if "type" in entry else None,
        count=count,
        first_seen=seen[0],
        last_seen=seen[1],
        version=None if version is None else str(version),
        newest=newest,
    )
