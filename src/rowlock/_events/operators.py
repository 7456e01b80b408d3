"""What operators do to jobs, as events."""

from __future__ import annotations

from dataclasses import dataclass
from logging import Logger
from typing import ClassVar

from rowlock._events import Event, logger


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEvent(Event):
    """Somebody did something to jobs; `by` says who."""

    logger: ClassVar[Logger] = logger

    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsCancelled(OperatorEvent):
    """Pending jobs (`ids`) were cancelled, running ones (`asked`) were asked to."""

    name = "jobs.cancelled"

    ids: tuple[int, ...]
    asked: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsReplayed(OperatorEvent):
    """Dead letters or cancelled jobs were put back; `to_queue` None is the old one."""

    name = "jobs.replayed"

    ids: tuple[int, ...]
    to_queue: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsMoved(OperatorEvent):
    """Pending jobs got another queue, priority or due time; None is the old one."""

    name = "jobs.moved"

    ids: tuple[int, ...]
    to_queue: str | None
    priority: int | None
    delay_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsDeleted(OperatorEvent):
    """Finished jobs were removed for good."""

    name = "jobs.deleted"

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBegan(OperatorEvent):
    """A queue or a task was paused: one of the two; `for_s` None is for good."""

    name = "pause.began"

    queue: str | None
    task: str | None
    for_s: float | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseEnded(OperatorEvent):
    """A queue or a task was resumed."""

    name = "pause.ended"

    queue: str | None
    task: str | None
