"""
Jobs, claims and outcomes: the values that travel between the parts.

`Status` and `TRANSITIONS` are the whole of a job's life as data. A claim is one
worker's hold on a job, identified by `ClaimKey`; an `Outcome` says what a claim
ended as. What is made for each attempt is a tuple: a frozen dataclass of as many fields
takes four times as long to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

from rowlock._errors import UsageError

# What a store's column of ids holds.
LARGEST_ID = 2**63 - 1

OnConflict: TypeAlias = Literal["skip", "raise", "replace"]
"""What `on_conflict=` takes: what becomes of a call whose key another job holds."""

JSON: TypeAlias = "bool | int | float | str | list[JSON] | Mapping[str, JSON] | None"


class Status(StrEnum):
    """Where a job is in its life."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether a job stays so until somebody replays, deletes or prunes it."""
        return self not in (Status.PENDING, Status.RUNNING)


StatusLike: TypeAlias = (
    Status | Literal["pending", "running", "succeeded", "failed", "cancelled"]
)
"""What `status=` takes: a `Status`, or its value as a text."""


def check_status(value: object) -> Status:
    """Read a status, also one that is written as a text."""
    try:
        return Status(value)  # type: ignore[arg-type]  # what is refused
    except ValueError:
        known = ", ".join(Status)
        msg = f"There is no status {value!r}; there are {known}."
        raise UsageError(msg) from None


# From a status, the verbs that leave it and where each may lead.
TRANSITIONS: Mapping[Status, Mapping[str, frozenset[Status]]] = {
    Status.PENDING: {
        "claim": frozenset({Status.RUNNING}),
        "cancel": frozenset({Status.CANCELLED}),
        "expire": frozenset({Status.CANCELLED}),
    },
    Status.RUNNING: {
        "finish": frozenset(
            {Status.SUCCEEDED, Status.PENDING, Status.FAILED, Status.CANCELLED}
        ),
    },
    Status.SUCCEEDED: {},
    Status.FAILED: {"replay": frozenset({Status.PENDING})},
    Status.CANCELLED: {"replay": frozenset({Status.PENDING})},
}


VerbName: TypeAlias = Literal["cancel", "replay", "move", "delete"]

# What an operator's verb can be done to; `delete` leads out of every status there is.
TAKES: Mapping[VerbName, tuple[Status, ...]] = {
    "cancel": (Status.PENDING, Status.RUNNING),
    "replay": (Status.FAILED, Status.CANCELLED),
    "move": (Status.PENDING,),
    "delete": (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED),
}


def check_id(value: object) -> int:
    """
    Read a job's id.

    Texts are refused, or the digits of one would pass for the ids of several jobs.
    """
    if value is None:
        msg = (
            "None is no job's id: it is what enqueue gives where a job is a duplicate."
            " The one that holds the key is found by app.find(task, idempotency_key)."
        )
        raise UsageError(msg)
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not 0 < value <= LARGEST_ID
    ):
        msg = f"A job's id is a whole number from 1 to {LARGEST_ID}, not {value!r}."
        raise UsageError(msg)
    return value


def check_ids(values: object) -> tuple[int, ...]:
    """Read an id, or several; a text can be iterated too, and isn't meant so."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | bytearray):
        return tuple(map(check_id, values))
    return (check_id(values),)


class ClaimKey(NamedTuple):
    """
    Which job, and which of its claims.

    `claim` only grows, so a key whose claim is over never holds again.
    Source: fencing tokens, Kleppmann 2016.
    """

    job_id: int
    claim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """
    A job that isn't enqueued yet.

    Exactly one of `delay` (from the store's now) and `run_at` counts: `run_at`
    where it is given. `timeout` is in seconds, 0 is none. What is None is the
    task's own at the time it runs.
    """

    task: str
    queue: str
    payload: str = field(repr=False)  # a repr ends up in a log
    priority: int = 0
    delay: timedelta = timedelta(0)
    run_at: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int = 3
    timeout: float | None = None
    backoff: Mapping[str, JSON] | None = None
    idempotency_key: str | None = None
    idempotency_for: timedelta | None = None
    on_conflict: OnConflict = "skip"
    meta: Mapping[str, JSON] | None = None


def check_jobs(jobs: object, call: str) -> list[NewJob]:
    """Read what a call that takes several jobs is given."""
    if not isinstance(jobs, Iterable):
        msg = (
            f"{call} takes several jobs, as in [task.job(n=1)], not one"
            f" {type(jobs).__name__}."
        )
        raise UsageError(msg)
    listed: list[NewJob] = []
    for place, job in enumerate(jobs):
        if not isinstance(job, NewJob):
            # By its type alone: it may hold what was meant for a payload.
            msg = (
                f"{call} takes what task.job(...) returns, and at place {place} is a"
                f" {type(job).__name__}."
            )
            raise UsageError(msg)
        listed.append(job)
    return listed


class Claim(NamedTuple):
    """
    A job as handed to one worker.

    `attempts` counts this start too. `failures` and `losses` are those before it.
    """

    key: ClaimKey
    task: str
    queue: str
    payload: str
    priority: int
    attempts: int
    failures: int
    losses: int
    max_attempts: int
    timeout: float | None
    backoff: Mapping[str, JSON] | None
    idempotency_key: str | None
    worker: str
    alone: bool
    abandoned: bool
    state: JSON
    run_at: datetime
    created_at: datetime
    started_at: datetime
    leased_until: datetime
    cancel_requested_at: datetime | None

    @property
    def job_id(self) -> int:
        """The job's id."""
        return self.key.job_id

    def __repr__(self) -> str:
        # Without the payload: it ends up in a log.
        return f"<Claim {self.key.claim} of job {self.key.job_id}, {self.task!r}>"


class Outcome(NamedTuple):
    """
    What a claim ended as; the store writes it if the fence holds.

    `status` is where the job goes, `delay` from the store's now when it is due
    again. `failed` counts against max_attempts, `lost` against the losses, and
    `unstarted` takes the start back. `error` is kept in the job's errors; `result`
    is JSON text. The jobs in `spawned` are inserted with the outcome or not at all
    (law 7). A recovery names in `leased_until` the lease that was over: where it was
    renewed meanwhile, the outcome is refused (law 9).
    """

    key: ClaimKey
    status: Status
    delay: timedelta = timedelta(0)
    failed: bool = False
    lost: bool = False
    unstarted: bool = False
    error: Mapping[str, JSON] | None = None
    result: str | None = None
    meta: Mapping[str, JSON] | None = None
    spawned: tuple[NewJob, ...] = ()
    leased_until: datetime | None = None

    def __repr__(self) -> str:
        # Without the result, as a claim goes without its payload.
        job_id, claim = self.key
        return f"<Outcome of claim {claim} of job {job_id}: {self.status}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """
    How an attempt ended, as `follow` is given it: before that is written.

    `status` is where the job goes: `pending` after a failure that is tried again, a
    snooze, a release. Where somebody asks for its cancellation meanwhile, a job that
    would be pending or failed becomes cancelled instead. `failed` says that it counts
    as a failure, `lost` that its worker was lost; `error` is then its type and message.
    `result` is what the handler returned, as JSON.
    """

    job_id: int
    task: str
    queue: str
    attempt: int
    status: Status
    failed: bool
    lost: bool
    error: str | None
    result: JSON = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """
    A job as it stands in the store.

    `payload`, `result`, `state` and `meta` are decoded JSON; the first three are left
    out of its repr, which ends up in logs. `errors` holds the last
    ten failures, losses and operators' acts, oldest first; `last_error` is the last
    there was, also of a job that succeeded afterwards. Instants are in UTC.
    `timeout` is in seconds; it and `backoff` are None where the task's own count.
    `fingerprint` is the same of all jobs with the same kind of last error, and is None
    of those that succeeded or were cancelled. `key_until` is until when a job that has
    ended keeps its key from others, None where it keeps it no longer, or not at all.
    """

    id: int
    queue: str
    task: str
    payload: Mapping[str, JSON] = field(repr=False)
    status: Status
    priority: int
    run_at: datetime
    expires_at: datetime | None
    claims: int
    attempts: int
    failures: int
    losses: int
    max_attempts: int
    timeout: float | None
    backoff: Mapping[str, JSON] | None
    idempotency_key: str | None
    leased_until: datetime | None
    worker: str | None
    cancel_requested_at: datetime | None
    last_error: str | None
    fingerprint: str | None
    errors: tuple[Mapping[str, JSON], ...]
    result: JSON = field(repr=False)
    state: JSON = field(repr=False)
    progress: Mapping[str, JSON] | None
    meta: Mapping[str, JSON]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    key_until: datetime | None = None


def error_of(job: Job) -> str | None:
    """
    Give the first line of what is wrong with a job; None where nothing is.

    The row of a job that succeeded in the end keeps the last error that it had, which
    is a part of its story: in a table it would look like a failure.
    """
    if job.status is Status.SUCCEEDED:
        return None
    return (job.last_error or "").partition("\n")[0] or None
