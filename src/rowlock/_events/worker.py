"""What a worker tells, as events."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime

from rowlock._events import Event, JobEvent
from rowlock._job import Status

# A field that the log leaves out, since another line of the same moment has it.
_UNLOGGED = {"logged": False}


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
class AttemptAbandoned(AttemptEvent):
    """
    A worker ended while this handler ran: its claim is left to its lease.

    It is no loss where the task allows more than one attempt. `reason` is what the
    handler was told, or `keep` where its task asked that it isn't (`on_shutdown`).
    """

    name = "attempt.abandoned"
    level = logging.WARNING

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
    """
    An outcome couldn't be written; the job is recovered, and runs again.

    It was tried until its lease ended, or at a shutdown until its worker had to.
    """

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
    """A worker claims no more, and waits `wait_s` for what runs."""

    name = "worker.draining"

    running: int
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCancelling(WorkerEvent):
    """
    A worker has waited, and tells what still runs to stop; in `wait_s` it ends.

    `ended` is how many handlers ended meanwhile, `handlers` how many are told, and
    `kept` how many aren't, as their tasks asked (`on_shutdown="keep"`).
    """

    name = "worker.cancelling"

    ended: int
    handlers: int
    kept: int
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopped(WorkerEvent):
    """
    A worker has ended, `took_s` after it was told to; it had run for `ran_s`.

    `abandoned` is how many claims are left to their lease: their handlers still ran,
    or their outcomes couldn't be written.
    """

    name = "worker.stopped"

    abandoned: int
    took_s: float
    ran_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGivesWay(WorkerEvent):
    """
    A worker claims nothing until what runs has ended, to run a suspect alone.

    A suspect is a job whose worker was lost; `suspect_since` is since when it is due.
    """

    name = "worker.gives_way"

    running: int
    suspect_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBlocked(WorkerEvent):
    """
    The worker's event loop doesn't turn: no other handler goes on, and no timer.

    `job_id` and `task` name the attempt whose code blocks it, None where it is none of
    the worker's; `stack` says where, as file:line:function, the innermost first. Told
    once a block, while it lasts, from the worker's watching thread.
    """

    name = "loop.blocked"
    level = logging.WARNING

    blocked_s: float
    job_id: int | None
    task: str | None
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFreed(WorkerEvent):
    """The worker's event loop turns again; what had blocked it, and for how long."""

    name = "loop.freed"
    level = logging.WARNING

    blocked_s: float
    job_id: int | None
    task: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOverrun(WorkerEvent):
    """
    More handlers are stuck than may be: each further one keeps its place.

    `rowlock worker` stops then, to be replaced; a worker in a process of yours goes on
    with the places that are left.
    """

    name = "worker.overrun"
    level = logging.CRITICAL

    stuck: int
    max_stuck: int


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
