"""A job as its history has it, and a law that was broken."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from rowlock._job import NewJob, Status


class Broken(NamedTuple):
    """A law that was broken: of which job, at which time, and how."""

    law: str
    job: int
    time: float
    how: str

    def __str__(self) -> str:
        return f"{self.law}: {self.how}"


class Heard(NamedTuple):
    """Since when a worker is connected, when it heard last, and how the clock stood."""

    since: float
    at: float
    ahead: float


@dataclass(slots=True)
class Record:
    """A job, as its history has it."""

    job: NewJob
    run_at: datetime
    status: Status = Status.PENDING
    claims: int = 0
    attempts: int = 0
    failures: int = 0
    losses: int = 0
    holder: str = ""
    leased_until: datetime | None = None
    is_asked: bool = False
    # By the store's clock, which may be set back meanwhile.
    started_at: datetime | None = None
    finished_at: datetime | None = None
    is_deleted: bool = False
    claimed_at: dict[int, float] = field(default_factory=dict)
    heard_at: dict[int, float] = field(default_factory=dict)
    number_of: dict[int, int] = field(default_factory=dict)
    ended_by: dict[int, str] = field(default_factory=dict)
    started: dict[int, float] = field(default_factory=dict)
    running: dict[int, str] = field(default_factory=dict)

    def finish(self, now: datetime) -> None:
        """Note when it ended: not before it was started, whatever the clock says."""
        started_at = self.started_at if self.attempts else None
        self.finished_at = max(now, started_at or now)


def state_of(record: Record) -> str:
    return f"{record.status} under claim {record.claims} of {record.holder or 'none'}"
