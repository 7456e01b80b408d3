"""
What happens, as one frozen dataclass an event.

`Events.emit` is the only place where Rowlock tells what it does; the log is one of
its listeners. Payloads never travel in an event. Durations end in `_s` and are in
seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import ClassVar, TypeAlias

from rowlock._job import Status

logger = logging.getLogger("rowlock")
worker_logger = logging.getLogger("rowlock.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Root of all events; `name` and `level` are the log's."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(JobEvent):
    """Something happened to one attempt."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(AttemptEvent):
    """A handler starts; `waited_s` is since the job was due."""

    name = "attempt.started"
    level = logging.DEBUG

    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSucceeded(AttemptEvent):
    """A handler returned and its outcome is written."""

    name = "attempt.succeeded"

    ran_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(AttemptEvent):
    """A handler raised or timed out; `retry_at` is None for a dead letter."""

    name = "attempt.failed"
    level = logging.WARNING

    ran_s: float
    failures: int
    error: str
    retry_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSnoozed(AttemptEvent):
    """A handler asked for later."""

    name = "attempt.snoozed"

    run_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReleased(AttemptEvent):
    """A claim was given back, without a failure."""

    name = "attempt.released"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStuck(AttemptEvent):
    """A handler can't be stopped: it runs on, and nobody records its end."""

    name = "attempt.stuck"
    level = logging.ERROR

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(JobEvent):
    """A running job ended as cancelled."""

    name = "job.cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDeadLettered(JobEvent):
    """A job gave up; it waits for somebody to look at it and replay it."""

    name = "job.dead_lettered"
    level = logging.ERROR

    failures: int
    losses: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLapsed(AttemptEvent):
    """This worker lost a claim whose handler still runs."""

    name = "claim.lost"
    level = logging.WARNING

    claim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecovered(AttemptEvent):
    """A claim of a lost worker was taken back."""

    name = "claim.recovered"
    level = logging.WARNING

    claim: int
    lost_worker: str
    losses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRefused(Event):
    """
    An outcome came too late: its claim didn't hold any more, nothing was written.

    `found_claims` and `found_status` are what stands in the store, None where the
    job is gone.
    """

    name = "claim.refused"
    level = logging.WARNING

    job_id: int
    claim: int
    found_claims: int | None
    found_status: Status | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeDropped(Event):
    """An outcome couldn't be written until its lease ended; recovery takes the job."""

    name = "outcome.dropped"
    level = logging.ERROR

    job_id: int
    claim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent(Event):
    """Something happened to this worker."""

    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(WorkerEvent):
    """A worker claims from now on."""

    name = "worker.started"

    store: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...] | None
    concurrency: int
    lease_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDraining(WorkerEvent):
    """A worker claims no more and waits for what runs."""

    name = "worker.draining"

    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopped(WorkerEvent):
    """A worker has ended; what it abandoned is left to recovery."""

    name = "worker.stopped"

    abandoned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAway(WorkerEvent):
    """The store is out of reach; told once, then tried again until it is back."""

    name = "store.unavailable"
    level = logging.ERROR

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreBack(WorkerEvent):
    """The store answers again."""

    name = "store.recovered"

    away_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepDone(WorkerEvent):
    """Jobs that came too late have expired, or a round of pruning has ended."""

    name = "upkeep.done"
    level = logging.DEBUG

    expired: int
    pruned: int


Listener: TypeAlias = Callable[[Event], None]


class Events:
    """Where events go: to the log, then to each listener in order."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = [log]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """
        Tell `listener` of every event; returns what ends that.

        It must not block; what it raises is logged and swallowed.
        """
        self._listeners.append(listener)

        def end() -> None:
            # A second time does nothing.
            with suppress(ValueError):
                self._listeners.remove(listener)

        return end

    def emit(self, event: Event) -> None:
        """Tell everybody."""
        # A copy, as one of them may end its listening meanwhile.
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                logger.exception("The listener %r failed on %s.", listener, event.name)


def log(event: Event) -> None:
    """
    Write an event to the log; `extra["rowlock"]` has its name (`event`) and fields.

    Loggers are `rowlock` and `rowlock.worker`.
    """
    if not event.logger.isEnabledFor(event.level):
        return
    values = {f.name: getattr(event, f.name) for f in fields(event)}
    told = " ".join(
        f"{name}={_tell(value)}" for name, value in values.items() if value is not None
    )
    extra = {"rowlock": {"event": event.name, **values}}
    event.logger.log(event.level, "%s %s", event.name, told, extra=extra)


def _tell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "-"
    text = str(value)
    # An error's text is anybody's: it must not forge a line, nor steer a terminal.
    return text if text.isprintable() and " " not in text else repr(text)
