"""What a worker tells, as events."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rowlock._events import Event, JobEvent
from rowlock._events.attempts import AttemptEvent
from rowlock._job import Status

# A field that the log leaves out, since another line of the same moment has it.
_UNLOGGED = {"logged": False}


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
class OutcomeDropped(AttemptEvent):
    """
    An outcome couldn't be written; the job is recovered, and runs again.

    It was tried until its lease ended, or at a shutdown until its worker had to.
    `reason` says why. Where a transaction of its handler's has the job, and commits
    after all, the job has succeeded.
    """

    name = "outcome.dropped"
    level = logging.ERROR

    claim: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent(Event):
    """Something happened to this worker."""

    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(WorkerEvent):
    """
    A worker claims from now on.

    `limits` are those of its queues, beside `concurrency`; `weights` those that aren't
    1.
    """

    name = "worker.started"

    store: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...] | None
    limits: Mapping[str, int]
    weights: Mapping[str, int]
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
