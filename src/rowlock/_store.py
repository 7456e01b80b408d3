"""
The seam between Rowlock and a database.

`Store` is everything that the rest of Rowlock asks of one, in verbs and batches.
Rules of the seam:

- Each operation that writes is one transaction, safe from any number of processes.
- Durations go in, instants come out: the store's clock is the only clock. The
  exceptions are instants that a user named (`run_at`, `expires_at`).
- No policy: the caller decides what a failure means, and the store writes the state
  that an outcome names, if the fence holds. One exception, which only the store sees
  without a race: after a cancel was asked, pending and failed become cancelled
  (law 21).
- Failure is raised as `StoreError` only. A refused outcome is an answer.

The laws, each the name of a test that runs on every store:

1.  Enqueue is all or none; ids come back in the order given, None for a duplicate.
2.  A job enqueued in a transaction that rolls back never existed.
3.  A job is held by at most one claim.
4.  Without contention claims of one queue come by priority, then run_at, then id.
5.  Each claim raises `claims` by one; nothing lowers it.
6.  finish changes a job only if it is running under that very claim; a refused
    outcome is an answer, logged with both claims, not an error.
7.  An outcome and the jobs it spawns are one.
8.  renew extends what is held - the fence holds, whether or not the lease ran out -
    and names what is lost and what was asked to cancel.
9.  A lease that hasn't run out is never recovered, except of a worker known to be
    dead (`lost(worker=...)`); one renewed after `lost` read it hasn't either.
10. At most one unfinished job per (task, idempotency key); the key is free again when
    the job ends, or `idempotency_for` after it.
11. A paused queue or task yields no claims; running attempts go on.
12. Prune never touches unfinished jobs, however old, nor those that keep their key;
    nothing younger than its retention goes, everything older than retention + 1 day is
    gone.
13. Every bounded operation respects its limit and can be repeated until nothing is
    left.
14. All instants are the store's, in UTC.
15. An operation that raised has changed nothing, unless it raised `OutcomeUnknown`.
16. A claim takes only tasks that the worker has handlers for; a job of any other task
    stays pending and costs nothing.
17. A store that was out of reach for longer than the lease doesn't hand its jobs to
    another worker the moment it is back: `lost` is empty until one lease of
    connected writing has passed (a worker known to be dead excepted).
18. No operation waits for a user's transaction longer than a second, save an enqueue
    or `once` of a key that this transaction is inserting.
19. A due job of a live worker's tasks in an unpaused queue is claimed within
    `safety_interval` where there is room, whatever wake-ups are lost; a suspect within
    that plus the longest attempt that runs.
20. Ids are never reused.
21. Once cancellation of a running job was asked, only succeeded or cancelled follows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rowlock._answers import (
    Answer,
    Page,
    Pause,
    QueueStats,
    Retention,
    Stats,
    TaskInfo,
    TaskStats,
    WorkerInfo,
)
from rowlock._dead_letters import DeadLetters
from rowlock._figures import Figures
from rowlock._filter import Filter
from rowlock._job import Claim, ClaimKey, Job, NewJob, Outcome, Status
from rowlock._lent import Fate, Lent

# All that crosses the seam, as whoever writes a store reads it here.
__all__ = [
    "Answer",
    "Claimed",
    "Demand",
    "Fate",
    "Lent",
    "Matches",
    "Migration",
    "Page",
    "Pause",
    "Pruned",
    "QueueStats",
    "Renewal",
    "Retention",
    "Settled",
    "Stats",
    "Store",
    "TaskInfo",
    "TaskStats",
    "Wakeups",
    "WorkerInfo",
]

if TYPE_CHECKING:
    from rowlock._copying import Copying
    from rowlock._doctor import Doctor


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """
    What a worker has room for: at most `total` jobs of these tasks.

    `queues` gives the most per queue, 0 where it is at its limit; None is any queue.
    `suspects` asks for suspects and nothing else: jobs whose last claim ended with the
    loss of its worker. Every other demand passes them by, and tells of those that wait,
    in all of its queues.

    Where several queues have due jobs, each gets starts in proportion to its weight,
    1 to 100, over time; one that `weights` doesn't name weighs 1. A weight lifts no
    limit, and room that a queue can't use goes to the others.
    """

    total: int
    tasks: frozenset[str]
    queues: Mapping[str, int] | None = None
    suspects: bool = False
    weights: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """
    What a claim got, in the order to start it.

    `next_due` is when the next job that fits the demand will be due, or a suspect that
    the demand passes by, None where nothing is planned; `now` is the store's, to tell
    how long that is.

    `suspect_since` is since when the first suspect that was passed by is due, None
    without one; `chosen_since` the same of those for which this worker was chosen, to
    stop claiming where the wait gets long. Of the live workers that could take it, the
    one that started last is chosen, the same for all who ask; where none is known, who
    asks. A claim that got all that it demanded may tell of suspects that another took
    within the last second.
    """

    claims: tuple[Claim, ...]
    now: datetime
    next_due: datetime | None
    suspect_since: datetime | None = None
    chosen_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """Of the claims to renew, those that are lost and those asked to cancel."""

    lost: frozenset[ClaimKey]
    cancelled: frozenset[ClaimKey]


class Settled(NamedTuple):
    """
    What became of one outcome.

    `status` and `claims` are what stands in the store now (None: the job is gone);
    `run_at` says when an accepted pending job is due. `spawned` holds the ids of the
    jobs spawned, None for a duplicate.
    """

    key: ClaimKey
    accepted: bool
    status: Status | None
    claims: int | None
    run_at: datetime | None = None
    spawned: tuple[int | None, ...] = ()

    @property
    def is_locked(self) -> bool:
        """
        Whether the claim holds and a live transaction has its row.

        Nothing was refused, then: try again.
        """
        return (
            not self.accepted
            and self.status is Status.RUNNING
            and self.claims == self.key.claim
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """
    How many jobs expired unstarted and how many finished ones are gone.

    `freed` is how many keys are free again: of jobs that kept them after their end, and
    of `once`.
    """

    expired: int
    deleted: int
    freed: int = 0


class Matches(NamedTuple):
    """Ids of jobs that fit, newest first; `is_cut` as in `Page`."""

    ids: tuple[int, ...]
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered file of schema, with its text."""

    version: int
    name: str
    sql: str


class Wakeups(Protocol):
    """One sleeper's subscription to news of the store."""

    async def wait(self, timeout: timedelta) -> bool:
        """
        Sleep until there may be work, at most `timeout`.

        News since the last call counts. True where there was news; a spurious one
        is allowed, and a lost one costs `timeout` at most.
        """
        ...

    def close(self) -> None:
        """End the subscription."""
        ...


class Store(Protocol):
    """
    Where jobs live: at most 20 operations, each proved by `tests/conformance`.

    Opening and closing are none of them.
    """

    @property
    def url(self) -> str:
        """Where this store is, to show: absolute, and without a password."""
        ...

    @property
    def is_new(self) -> bool:
        """Whether `open` made this database, as it does where its name is mistyped."""
        ...

    @property
    def lent(self) -> Lent:
        """The operations on a connection that the caller lends."""
        ...

    @property
    def dead_letters(self) -> DeadLetters:
        """What is asked of dead letters as groups, and their automatic replay."""
        ...

    @property
    def figures(self) -> Figures:
        """What is counted for an operator who asks."""
        ...

    @property
    def copying(self) -> Copying:
        """How everything in it is copied to another store: a seam of its own."""
        ...

    @property
    def doctor(self) -> Doctor:
        """Who examines this store."""
        ...

    async def open(self) -> None:
        """
        Connect and check the schema; a second call does nothing.

        Raises:
            SchemaMismatch: the schema is too old or too new; the message says what
                to run.
            StoreUnavailable: out of reach; try again.
        """
        ...

    async def close(self) -> None:
        """Finish what was handed over, then let go of every connection."""
        ...

    async def migrate(self, *, dry_run: bool = False) -> Sequence[Migration]:
        """Apply what is pending, under a lock; return it, oldest first."""
        ...

    async def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int | None]:
        """
        Insert all of these jobs, or none.

        Returns one id a job, in the order given; None where another job of the same
        task holds the idempotency key, also one earlier in `jobs`: as it is unfinished,
        or keeps its key for a while after its end (laws 1, 10). A holder that was not
        started by its `expires_at` never will be: it is expired first, so that None
        means that a job of this key will run, or has.

        With `on_conflict` "replace" a holder that is pending gets the payload, `run_at`
        and `expires_at` of the duplicate, and nothing else of it. Where the payload is
        another, what an attempt has saved is forgotten.

        Raises:
            KeyConflict: with `on_conflict` "raise" a holder has another payload.
        """
        ...

    async def claim(
        self, demand: Demand, *, worker: str, lease: timedelta, alone: bool = False
    ) -> Claimed:
        """
        Take due jobs for this worker, at most what it demands (laws 3, 4, 5, 11, 16).

        `alone` says that the worker holds nothing else and claims nothing until this
        ends, as it must for a suspect; it is written to the claim. Repeating it after a
        lost answer is safe: what the first one took is found by `lost(worker=...)`.
        """
        ...

    async def renew(
        self,
        keys: Collection[ClaimKey],
        *,
        worker: str,
        lease: timedelta,
        abandoned: bool = False,
    ) -> Renewal:
        """
        Extend these claims by `lease` from now (law 8).

        It is the worker's sign of life too, so an idle one calls it with no keys. A
        row that a live transaction holds is skipped: neither lost nor extended.
        `abandoned` marks claims whose worker stops without them.
        """
        ...

    async def cancel_requested(
        self, keys: Collection[ClaimKey]
    ) -> Collection[ClaimKey]:
        """
        Read which of these claims still hold their job and were asked to cancel it.

        `renew` tells it too; this writes nothing, so it can be asked often.
        """
        ...

    async def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        """
        Write what these claims ended as, where they still hold their job (laws 6, 7).

        All in one transaction, each with the jobs it spawns. Returns one answer an
        outcome, in the order given. Repeating it is safe: what was written is then
        refused, with the status found.
        """
        ...

    def wakeups(self, poll_interval: timedelta | None = None) -> Wakeups:
        """
        Subscribe to news of this store; close it when done.

        Where no news can come, sleeps end after `poll_interval`, None is 2 s, and after
        twice as long each time until something is found, 30 s at most.
        """
        ...

    async def lost(self, limit: int, *, worker: str | None = None) -> Sequence[Claim]:
        """
        Read claims whose lease is over, or all that a worker known to be dead holds.

        Changes nothing: the caller turns each into an outcome, which names the lease
        that was read, and calls `finish`, which refuses it where the claim was renewed
        meanwhile. Empty while this process is in its grace (laws 9, 17).
        """
        ...

    async def save(
        self, key: ClaimKey, *, state: str | None = None, progress: str | None = None
    ) -> bool:
        """Keep a running attempt's state or progress (JSON text); False: claim lost."""
        ...

    async def prune(self, retention: Retention, *, limit: int) -> Pruned:
        """
        Expire what was never started in time, delete what finished long ago (law 12).

        Frees the keys that were kept for long enough, too (law 10). At most `limit` of
        each; all zero means that nothing is left.
        """
        ...

    async def cancel(self, ids: Sequence[int], *, by: str) -> Sequence[Answer]:
        """
        Cancel pending jobs, ask running ones to cancel; an answer an id, in order.

        `done` with status running: asked, and only succeeded or cancelled follows
        (law 21).
        """
        ...

    async def replay(
        self,
        ids: Sequence[int],
        *,
        by: str,
        delay: timedelta = timedelta(0),
        pace: timedelta = timedelta(0),
        queue: str | None = None,
    ) -> Sequence[Answer]:
        """
        Put failed and cancelled jobs back to pending; an answer an id, in order.

        The first is due after `delay`, each other one `pace` after the one before it,
        also where that was left. `queue` None: each goes where it was.
        Of several with one (task, key) the newest goes, and none whose key an
        unfinished job holds. Clears failures, losses, cancel_requested_at, expires_at
        and finished_at; keeps id, claims, attempts, errors and state.
        """
        ...

    async def move(
        self,
        ids: Sequence[int],
        *,
        by: str,
        queue: str | None = None,
        priority: int | None = None,
        delay: timedelta | None = None,
    ) -> Sequence[Answer]:
        """Give pending jobs another queue, priority or due time; an answer an id."""
        ...

    async def delete(self, ids: Sequence[int]) -> Sequence[Answer]:
        """Remove finished jobs for good; an answer an id, in order."""
        ...

    async def pause(
        self, pause: Pause, *, for_: timedelta | None = None, resume: bool = False
    ) -> bool:
        """Pause a queue or a task, or resume it; False: there was nothing to resume."""
        ...

    async def get(self, ids: Sequence[int]) -> Sequence[Job]:
        """Read jobs by id, in the order given; missing ids are left out."""
        ...

    async def list(
        self, where: Filter, *, after: int | None = None, limit: int = 100
    ) -> Page:
        """Read jobs that fit, newest (largest id) first, below the id `after`."""
        ...

    async def search(
        self, where: Filter, *, after: int | None = None, limit: int
    ) -> Matches:
        """
        Give the ids of jobs that fit, newest (largest) first, below the id `after`.

        Reads none of the jobs, so that a verb may go over very many. Payloads are
        looked at for the newest `PAYLOADS_LOOKED_AT` that fit otherwise.
        """
        ...

    async def register(
        self,
        worker: WorkerInfo | None,
        tasks: Sequence[TaskInfo],
        *,
        stopped: bool = False,
    ) -> None:
        """
        Tell operators of this worker and its tasks, or that it has stopped.

        None is an app that isn't at work: it tells of its tasks alone.
        """
        ...

    async def stats(self) -> Stats:
        """
        Count jobs by queue and status, and name the live workers.

        Reads all there are: who can do without asks `figures`.
        """
        ...
