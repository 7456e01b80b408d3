"""
What a user asks of a store, and what it answers: which jobs, how many, what was done.

They cross the seam, and stand apart from it so that `import rowlock` doesn't load it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Self, TypeAlias

from rowlock._durations import to_delay
from rowlock._job import JSON, Job, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """
    What an operator's verb did to one job.

    Where it isn't `done`, `status` is the state found (None: no such job),
    `blocked_by` the job that holds the key, and `is_locked` says that a live
    transaction has the row, so that it is worth another try.
    """

    job_id: int
    done: bool
    status: Status | None
    blocked_by: int | None = None
    is_locked: bool = False

    def __str__(self) -> str:
        """Say it in words: `done`, `already succeeded`, `blocked by 17`."""
        if self.done:
            return "done"
        if self.is_locked:
            return "locked by another transaction, try again"
        if self.status is None:
            return "not found"
        if self.blocked_by is not None:
            return f"blocked by {self.blocked_by}"
        return f"already {self.status}"


class Answers(tuple[Answer, ...]):  # noqa: SLOT001 - a tuple has no room for one
    """
    What an operator's verb did: an answer a job, in order.

    The order is that of the ids that were given, or the newest first. `is_cut` says
    that more jobs fit the filter than those whose payloads were looked at.
    """

    is_cut: bool

    def __new__(cls, answers: Iterable[Answer] = (), *, is_cut: bool = False) -> Self:
        """Take answers in their order."""
        made = super().__new__(cls, answers)
        made.is_cut = is_cut
        return made

    @property
    def done(self) -> int:
        """How many jobs it was done to."""
        return sum(answer.done for answer in self)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many jobs have each answer, in words; the most frequent first."""
        return dict(Counter(map(str, self)).most_common())


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewGroup:
    """Jobs that are alike: how many, and the status, task and error's first line."""

    jobs: int
    status: Status
    task: str
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """
    Which jobs a verb would take: how many, and of some what they are.

    Those are `sampled` jobs, taken evenly from the newest to the oldest. Groups are the
    largest first; `is_cut` as in `Answers`.
    """

    verb: str
    count: int
    sampled: int
    groups: tuple[PreviewGroup, ...]
    is_cut: bool = False


@dataclass(frozen=True, slots=True, init=False)
class Retention:
    """
    How long finished jobs stay, by how they ended; 0 keeps nothing.

    `once` is for how long a key of `app.once` is remembered. Each is a `timedelta`, or
    in seconds. A job that keeps its key (`idempotency_for=`) stays as long as that.
    """

    succeeded: timedelta = timedelta(days=3)
    cancelled: timedelta = timedelta(days=3)
    failed: timedelta = timedelta(days=30)
    once: timedelta = timedelta(days=30)

    # Takes more than it gives back, which a field can't say to a type checker.
    def __init__(
        self,
        *,
        succeeded: float | timedelta = succeeded,
        cancelled: float | timedelta = cancelled,
        failed: float | timedelta = failed,
        once: float | timedelta = once,
    ) -> None:
        given = {
            "succeeded": succeeded,
            "cancelled": cancelled,
            "failed": failed,
            "once": once,
        }
        for name, value in given.items():
            object.__setattr__(self, name, to_delay(value, f"Retention({name}=)"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """
    Jobs, newest first; `after` goes into the next call, None at the end.

    `is_cut` says that more jobs fit than those whose payloads were looked at.
    """

    jobs: tuple[Job, ...]
    after: int | None
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A paused queue or task: exactly one of the two is set. `until` None: for good."""

    queue: str | None = None
    task: str | None = None
    until: datetime | None = None
    reason: str | None = None
    by: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """
    A worker as operators see it; `queues` None is any queue.

    `version` is that of its code, as `App(version=)` said, and `rowlock` Rowlock's own.
    One that runs a job `alone`, or that `gives_way` to a suspect, claims nothing else
    until that has ended, however much room it has. `stuck` names the jobs whose handler
    it could not stop: their attempts have ended, the handlers run on.
    """

    id: str
    host: str
    pid: int
    version: str | None
    rowlock: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...] | None
    concurrency: int
    lease: timedelta
    running: int = 0
    alone: bool = False
    gives_way: bool = False
    stuck: tuple[int, ...] = ()
    started_at: datetime | None = None
    seen_at: datetime | None = None

    def serves(self, task: str, queue: str) -> bool:
        """
        Tell whether it may claim a job of this task in this queue.

            >>> from rowlock import App
            >>> workers = App("sqlite://").stats_sync().workers
            >>> any(worker.serves("greet", "mail") for worker in workers)
            False
        """
        return task in self.tasks and (self.queues is None or queue in self.queues)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """
    A task as apps and workers know it, with its defaults.

    `seen_at` is when one of them told of it last, as each does at its start and hourly.
    """

    name: str
    queue: str
    defaults: Mapping[str, JSON]
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """
    One queue: jobs by status, how many are due, and since when the oldest is.

    `counts` has every status, with 0 where no job is in it. `rate` is how many jobs a
    second ended within the last minute, however they did; those that retention has
    removed since are missing.
    """

    queue: str
    counts: Mapping[Status, int]
    due: int
    oldest_due: datetime | None
    rate: float = 0.0

    def __post_init__(self) -> None:
        # A store counts what is there; who reads looks for what isn't, too.
        counts = {status: self.counts.get(status, 0) for status in Status}
        object.__setattr__(self, "counts", counts)

    @property
    def scheduled(self) -> int:
        """How many pending jobs aren't due yet."""
        return self.counts[Status.PENDING] - self.due


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStats:
    """How many jobs of one task are due in one queue."""

    queue: str
    task: str
    due: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """
    Who is at work and what is paused; workers are those that are live.

    `registered` has the tasks that apps and workers have ever told of, by name.
    """

    now: datetime
    workers: tuple[WorkerInfo, ...]
    pauses: tuple[Pause, ...]
    registered: tuple[TaskInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(Overview):
    """
    The store at a glance, queues by name; workers are those that are live.

    `tasks` has those of which jobs are due, by queue and name; `registered` those that
    apps and workers have ever told of, by name.
    """

    queues: tuple[QueueStats, ...]
    tasks: tuple[TaskStats, ...] = ()

    @property
    def unserved(self) -> Mapping[str, int]:
        """How many jobs are due of each task that no live worker runs, by name."""
        return unserved(self.tasks, self.workers)


def unserved(
    due: Iterable[TaskStats], workers: Collection[WorkerInfo]
) -> Mapping[str, int]:
    """Count the due jobs of each task that none of these workers runs, by name."""
    unserved: Counter[str] = Counter()
    for each in due:
        if not any(worker.serves(each.task, each.queue) for worker in workers):
            unserved[each.task] += each.due
    return unserved


Reason: TypeAlias = Literal[
    "running",
    "held",
    "lost",
    "succeeded",
    "failed",
    "cancelled",
    "blocked",
    "expired",
    "paused",
    "scheduled",
    "unserved",
    "suspect",
    "gives_way",
    "alone",
    "behind",
    "busy",
    "due",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a job isn't running: one word for a program, one sentence for a person."""

    job_id: int
    status: Status
    reason: Reason
    sentence: str

    def __str__(self) -> str:
        """Say the sentence."""
        return self.sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadGroup:
    """
    Dead letters of one task that died of the same error.

    `error` is its type and message without what differs from job to job. `version` is
    that of the code of the newest, whose id is `newest`. `fingerprint` is None where no
    error was recorded.
    """

    fingerprint: str | None
    task: str
    error: str | None
    count: int
    first_seen: datetime
    last_seen: datetime
    version: str | None
    newest: int


Severity: TypeAlias = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One thing that the doctor looked at, and its cure where it isn't well.

    `about` names the thing by one word, for scripts. `severity` is `ok`, `warning` (it
    hurts, or will) or `wrong` (jobs may be lost, late or stuck). `what` and `cure` are
    sentences; SQL and commands to run stand in the cure between backticks.

        >>> from rowlock import App
        >>> [finding.what for finding in App("sqlite://").doctor_sync()
        ...  if finding.about == "tasks"]
        ['Each task with due jobs has a live worker.']
    """

    about: str
    severity: Severity
    what: str
    cure: str | None = None
