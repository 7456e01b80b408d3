"""
What happens, as one frozen dataclass an event; users import them from `rowlock.events`.

Payloads, results and states never travel in an event. Durations end in `_s` and are
in seconds; instants are aware and in UTC. `Extensions.emit` is the only place from
which events are told, and the log is one of those that hear them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from rowlock._job import Status

logger = logging.getLogger("rowlock")
worker_logger = logging.getLogger("rowlock.worker")

# A field that the log leaves out, since another line of the same moment has it.
_UNLOGGED = {"logged": False}


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
    """
    A handler raised or timed out; `retry_at` is None for a dead letter.

    `error` is its type and message on one line, of at most 2 KiB.
    """

    name = "attempt.failed"
    level = logging.WARNING

    ran_s: float
    failures: int
    error_type: str
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
class ResultDropped(AttemptEvent):
    """
    A handler's result can't be stored: the job succeeded, its `result` is null.

    The job's `meta.result_error` says why; not this, as it may name keys of the result.
    """

    name = "result.dropped"
    level = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSwallowed(AttemptEvent):
    """
    A handler made a `Retry`, `Snooze` or `Unrecoverable`, and ended otherwise.

    An `except Exception` around the `raise` has swallowed it, or it was never raised.
    """

    name = "signal.swallowed"
    level = logging.WARNING

    signal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(JobEvent):
    """A running job ended as cancelled."""

    name = "job.cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDeadLettered(JobEvent):
    """
    A job gave up; it waits for somebody to look at it and replay it.

    The log leaves `error` out: the line before, of the attempt or the claim, says it.
    """

    name = "job.dead_lettered"
    level = logging.ERROR

    failures: int
    losses: int
    error_type: str
    error: str = field(metadata=_UNLOGGED)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksUnserved(WorkerEvent):
    """
    Jobs are due of tasks that no live worker has; told once, at a worker's start.

    A task was renamed or its module isn't imported, a queue has no worker, or a deploy
    is half done.
    """

    name = "tasks.unserved"
    level = logging.WARNING

    tasks: tuple[str, ...]
    due: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayProbed(WorkerEvent):
    """
    The probe of `App.replay_when` was asked; `replayed` is how many jobs went back.

    `error` says why it didn't pass, where it raised or took too long.
    """

    name = "replay.probed"

    task: str
    passed: bool
    replayed: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEvent(Event):
    """Somebody did something to jobs; `by` says who."""

    logger = logger

    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsCancelled(OperatorEvent):
    """Pending jobs (`ids`) were cancelled, running ones (`asked`) were asked to."""

    name = "jobs.cancelled"

    ids: tuple[int, ...]
    asked: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsReplayed(OperatorEvent):
    """Dead letters or cancelled jobs were put back."""

    name = "jobs.replayed"

    ids: tuple[int, ...]


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
