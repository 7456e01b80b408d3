"""
What happens, as one frozen dataclass an event; users import them from `rowlock.events`.

Here is what every app tells; `operators` and `worker` have the rest, each loaded by
those who tell of it. Payloads, results and states never travel in an event. Durations
end in `_s` and are in seconds; instants are aware and in UTC. `Extensions.emit` is the
only place from which events are told, and the log is one of those that hear them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

logger = logging.getLogger("rowlock")
worker_logger = logging.getLogger("rowlock.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """
    Root of all events; `name` and `level` are the log's.

        >>> from rowlock.events import JobEnqueued
        >>> JobEnqueued(job_id=17, task="greet", queue="default").name
        'job.enqueued'
    """

    name: ClassVar[str]
    level: ClassVar[int] = logging.INFO
    logger: ClassVar[logging.Logger] = worker_logger


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Event):
    """Something happened to one job."""

    job_id: int
    task: str
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnqueued(JobEvent):
    """A job was enqueued; in a lent transaction it isn't committed yet."""

    name = "job.enqueued"
    level = logging.DEBUG
    logger = logger


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDuplicate(Event):
    """Nothing was enqueued: an unfinished job of the task holds the key."""

    name = "job.duplicate"
    level = logging.DEBUG
    logger = logger

    task: str
    queue: str
    idempotency_key: str | None
