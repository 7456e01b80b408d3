"""What is known of a job: as its producer asked for it, its claims, and its row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple


class Span(NamedTuple):
    """A time in which something lasted."""

    begin: float
    end: float

    def overlap(self, other: Span) -> float:
        """Tell for how long it lasted within another, in seconds."""
        return max(min(self.end, other.end) - max(self.begin, other.begin), 0.0)


@dataclass(frozen=True, slots=True)
class Row:
    """A job, as it stands in the database when all is over."""

    id: int
    task: str
    mark: str
    status: str
    claims: int
    attempts: int
    failures: int
    losses: int
    max_attempts: int


class Effect(NamedTuple):
    """What a claim's handler wrote to the jobs' own database, when all is over."""

    mark: str
    job_id: int
    claim: int


@dataclass(slots=True)
class Handed:
    """
    An outcome that was handed to the store, and its answer if that was heard.

    The handler's own transaction `is_effect`, from when it is to be committed.
    """

    at: float
    process: int
    status: str
    failed: bool
    lost: bool
    unstarted: bool
    answered_at: float | None = None
    accepted: bool = False
    found: str | None = None
    is_effect: bool = False


@dataclass(slots=True)
class Transaction:
    """
    What a handler knows of the transaction of its effect.

    `fate` is "cut short" until something else is known: there is no commit, then.
    `end` is what was handed in with it, as from its commit on it may be the claim's.
    """

    fate: str = "cut short"
    error: str = ""
    ended_at: float = math.inf
    end: Handed | None = None

    @property
    def may_be_there(self) -> bool:
        return self.fate in ("committed", "in doubt")


@dataclass(slots=True)
class Run:
    """One start of a handler: where, which attempt, until when, and how it ended."""

    at: float
    process: int
    number: int
    ended_at: float = math.inf
    how: str = ""
    ends: int = 0
    transaction: Transaction | None = None

    @property
    def is_done(self) -> bool:
        """Whether it ran well, and did what isn't taken back by a rollback."""
        return self.how == "ended" and self.transaction is None


@dataclass(slots=True)
class Claim:
    """One claim of a job: who was given it, what ran, what was handed in."""

    number: int
    at: float | None = None
    process: int | None = None
    runs: list[Run] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)

    @property
    def accepted(self) -> list[Handed]:
        return [each for each in self.handed if each.accepted]

    @property
    def ends(self) -> list[Handed]:
        """What may have ended it: what was accepted, or else what got no answer."""
        unheard = [each for each in self.handed if each.answered_at is None]
        return self.accepted or unheard

    @property
    def began_at(self) -> float:
        """When it is first heard of."""
        return min(
            [math.inf if self.at is None else self.at, *(run.at for run in self.runs)]
        )

    @property
    def processes(self) -> set[int]:
        """Its worker, and where its handler ran."""
        return {run.process for run in self.runs} | {
            pid for pid in [self.process] if pid is not None
        }


@dataclass(slots=True)
class Asked:
    """A job that a producer asked for: `fate` is what it knows to have become of it."""

    mark: str
    at: float
    task: str
    delay: float = 0.0
    key: str | None = None
    fate: str = "unknown"
    is_in_commit: bool = False
    answered_at: float = math.inf
    job_id: int | None = None
