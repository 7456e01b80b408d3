"""
The database of a simulation: the model of the laws, made to answer.

Each method is one transaction: it answers as the laws have it, by the rules of
`tests/conformance/model.py`, and notes in the history what it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from rowlock._job import Claim, ClaimKey, NewJob, Outcome, Status
from rowlock._store import (
    Answer,
    Claimed,
    Demand,
    Fate,
    Pruned,
    Renewal,
    Retention,
    Settled,
    WorkerInfo,
)
from rowlock.stores.turns import Turns
from tests.conformance.model import MAY, Model, Row

from .clock import Clock
from .history import History

PENDING, RUNNING, CANCELLED = Status.PENDING, Status.RUNNING, Status.CANCELLED


@dataclass(slots=True)
class Seen:
    """A worker in the list of workers."""

    info: WorkerInfo
    started_at: datetime
    at: datetime


class Ended(NamedTuple):
    """An outcome, and how the row stands after it."""

    outcome: Outcome
    accepted: bool
    is_locked: bool
    status: Status | None
    run_at: datetime | None = None

    def __str__(self) -> str:
        if self.is_locked:
            return "locked by somebody"
        came = self.status if self.accepted else f"refused, it is {self.status}"
        how = ", unstarted" if self.outcome.unstarted else ""
        return f"{came}{', a loss' if self.outcome.lost else how}"


class Database:
    """The truth, which all workers share."""

    def __init__(self, clock: Clock, history: History) -> None:
        self.model = Model(clock)
        self.jobs: dict[int, NewJob] = {}
        self.history = history
        self.seen: dict[str, Seen] = {}
        self.turns: dict[str, Turns] = {}
        self.listeners: list[Callable[[], None]] = []
        # Rows that somebody's open transaction holds, and those of handlers' own, with
        # who it is and what is recorded in it.
        self.locked: set[int] = set()
        self.open: dict[int, tuple[str, Outcome]] = {}

    def tell(self) -> None:
        for listener in tuple(self.listeners):
            listener()

    def enqueue(self, jobs: Sequence[NewJob], *, by: str) -> list[int | None]:
        return [self._insert(job, by) for job in jobs]

    def _insert(self, job: NewJob, by: str) -> int | None:
        model = self.model
        holder = model.rows.get(model.holder(job) or 0)
        is_new = holder is None or model.has_expired(holder)
        job_id = model.last_id + 1 if is_new else None
        if holder is not None and is_new:
            self.history.add(by, "expires", holder.id)
        model.enqueue([job], [job_id])
        if job_id is None:
            return None
        self.jobs[job_id] = job
        self.history.add(by, "enqueues", job_id, note=model.rows[job_id].run_at)
        self.tell()
        return job_id

    def claim(
        self, demand: Demand, *, worker: str, lease: timedelta, alone: bool
    ) -> Claimed:
        now, wanted = self.model.now(), self.model.fitting(demand)
        due = [row for row in wanted if row.run_at <= now]
        open_to_it = [row for row in due if row.suspect == demand.suspects]
        taken = self.chosen(open_to_it, demand, worker)
        for row in taken:
            row.status, row.worker, row.started_at = RUNNING, worker, now
            row.claims, row.attempts = row.claims + 1, row.attempts + 1
            row.leased_until, row.alone = now + lease, alone
            row.abandoned = False
            self.history.add(worker, "claims", row.id, row.claims, demand)
        planned = [row.run_at for row in wanted if row.run_at > now]
        passed = [row for row in due if row.suspect > demand.suspects]
        its_own = [row for row in passed if self._chooses(row) in (None, worker)]
        return Claimed(
            claims=tuple(map(self._claim, taken)),
            now=now,
            next_due=min(planned, default=None),
            suspect_since=min((row.run_at for row in passed), default=None),
            chosen_since=min((row.run_at for row in its_own), default=None),
        )

    def chosen(self, due: list[Row], demand: Demand, worker: str) -> list[Row]:
        """Of jobs in their order, take what the demand has room for."""
        lines: dict[str, list[Row]] = {}
        for row in due:
            lines.setdefault(row.queue, []).append(row)
        limits = demand.queues or {}
        jobs = {
            queue: iter(line[: limits.get(queue, len(line))])
            for queue, line in lines.items()
        }
        turns = self.turns.setdefault(worker, Turns())
        return turns.take(jobs, demand.weights, demand.total).deal(jobs)

    def _chooses(self, row: Row) -> str | None:
        """Tell which live worker is to give way to a suspect."""
        now = self.model.now()
        live = [
            (seen.started_at, name)
            for name, seen in self.seen.items()
            if seen.at + seen.info.lease >= now
            and seen.info.serves(row.task, row.queue)
        ]
        return max(live)[1] if live else None

    def _claim(self, row: Row) -> Claim:
        job = self.jobs[row.id]
        assert row.leased_until
        assert row.started_at
        assert row.worker
        return Claim(
            key=ClaimKey(row.id, row.claims),
            task=row.task,
            queue=row.queue,
            payload=job.payload,
            priority=row.priority,
            attempts=row.attempts,
            failures=row.failures,
            losses=row.losses,
            max_attempts=job.max_attempts,
            timeout=job.timeout,
            backoff=job.backoff,
            idempotency_key=row.idempotency_key,
            worker=row.worker,
            alone=row.alone,
            abandoned=row.abandoned,
            state=row.state,
            run_at=row.run_at,
            created_at=row.started_at,
            started_at=row.started_at,
            leased_until=row.leased_until,
            cancel_requested_at=row.cancel_requested_at,
        )

    def renew(
        self,
        keys: Collection[ClaimKey],
        *,
        worker: str,
        lease: timedelta,
        abandoned: bool,
    ) -> Renewal:
        now, lost, cancelled = self.model.now(), set[ClaimKey](), set[ClaimKey]()
        if worker in self.seen:
            self.seen[worker].at = now
            self._note_seen(worker)
        for key in keys:
            row = self.model.held(key)
            if self.is_locked(key.job_id):
                continue
            if row is None:
                lost.add(key)
                self.history.add(worker, "hears that it has lost", *key)
                continue
            row.leased_until = now + lease
            row.abandoned |= abandoned
            if abandoned:
                self.history.add(worker, "abandons", *key)
            self.history.add(worker, "extends", *key, row.leased_until)
            if row.cancel_requested_at:
                cancelled.add(key)
        return Renewal(lost=frozenset(lost), cancelled=frozenset(cancelled))

    def cancel_requested(self, keys: Collection[ClaimKey]) -> list[ClaimKey]:
        rows = {key: self.model.held(key) for key in keys}
        return [key for key, row in rows.items() if row and row.cancel_requested_at]

    def finish(self, outcomes: Sequence[Outcome], *, by: str) -> list[Settled]:
        return [self._end(outcome, by) for outcome in outcomes]

    def _end(self, outcome: Outcome, by: str) -> Settled:
        model, key = self.model, outcome.key
        held = model.held(key, outcome.leased_until)
        is_locked = self.is_locked(key.job_id)
        if is_locked:
            held = None
        if held:
            model.end(held, outcome)
        row = model.rows.get(key.job_id)
        status = row.status if row else None
        run_at = held.run_at if held and status is PENDING else None
        ended = Ended(outcome, held is not None, is_locked, status, run_at)
        self.history.add(by, "ends", *key, ended)
        spawned = self.enqueue(outcome.spawned, by=by) if held else ()
        if run_at is not None:
            self.tell()
        return Settled(
            key,
            held is not None,
            status,
            row.claims if row else None,
            run_at,
            tuple(spawned),
        )

    def lost(self, limit: int, *, worker: str | None) -> list[Claim]:
        rows = self.model.rows.values()
        over = [row for row in rows if self.model.is_lost(row, worker)]
        if worker is None:
            over = [row for row in over if row.id not in self.open]
        return list(map(self._claim, over[:limit]))

    def prune(self, retention: Retention, limit: int, *, by: str) -> Pruned:
        now, rows = self.model.now(), self.model.rows
        late = [row for row in rows.values() if self.model.has_expired(row)]
        for row in late[:limit]:
            row.status, row.finished_at = CANCELLED, now
            self.history.add(by, "expires", row.id)
        old = [
            row
            for row in rows.values()
            if row.status.is_final
            and row.finished_at is not None
            and now - row.finished_at >= getattr(retention, row.status)
        ]
        for row in old[:limit]:
            del rows[row.id]
            self.history.add(by, "deletes", row.id, note=row.status)
        return Pruned(expired=len(late[:limit]), deleted=len(old[:limit]))

    def operate(self, verb: str, job_id: int) -> None:
        """Cancel or replay, as an operator does."""
        row = self.model.rows.get(job_id)
        may = row is not None and row.status in MAY[verb]
        blocker = self.model.holder(row) if row and may and verb == "replay" else None
        done = may and blocker is None
        status = row.status if row else None
        answer = Answer(job_id=job_id, done=done, status=status, blocked_by=blocker)
        self.model.operate(verb, [answer], "ada")
        if row is not None and done:
            self.history.add("operator", f"{verb}s", job_id, note=status)
            self.tell()

    def lock(self, job_id: int, *, unlock: bool = False) -> None:
        """Have somebody's transaction hold a running job's row, or let it go."""
        row = self.model.rows.get(job_id)
        if unlock:
            self.locked.discard(job_id)
            self.history.add("somebody", "lets go of", job_id)
        elif row and row.status is RUNNING and job_id not in self.open:
            self.locked.add(job_id)
            self.history.add("somebody", "locks", job_id)

    def is_locked(self, job_id: int) -> bool:
        return job_id in self.locked or job_id in self.open

    def complete(self, outcome: Outcome, *, by: str) -> Fate:
        """Record a success in a handler's transaction, if its claim is running."""
        fate = self.fate(outcome.key)
        if fate is Fate.RUNNING:
            self.open[outcome.key.job_id] = by, outcome
            self.history.add(by, "completes", *outcome.key)
        return fate

    def commit(self, key: ClaimKey) -> None:
        """Commit it, if it lives."""
        by, outcome = self.open.get(key.job_id, ("", None))
        if outcome is not None and outcome.key == key:
            del self.open[key.job_id]
            settled = self._end(outcome, by)
            self.history.add(by, "commits", *key, settled.accepted)

    def roll_back(self, key: ClaimKey) -> None:
        """Roll it back, if it lives."""
        by, outcome = self.open.get(key.job_id, ("", None))
        if outcome is not None and outcome.key == key:
            del self.open[key.job_id]
            self.history.add(by, "rolls back", *key)

    def fate(self, key: ClaimKey) -> Fate:
        row = self.model.rows.get(key.job_id)
        if row is None:
            return Fate.SUCCEEDED  # as the stores have it
        if row.claims != key.claim or row.status not in (RUNNING, Status.SUCCEEDED):
            return Fate.LOST
        if row.status is Status.SUCCEEDED:
            return Fate.SUCCEEDED
        return Fate.OPEN if self.is_locked(row.id) else Fate.RUNNING

    def pause(self, queue: str, *, resume: bool) -> None:
        name = queue, None
        is_on = name in self.model.pauses
        if resume == is_on:
            if resume:
                del self.model.pauses[name]
            else:
                self.model.pauses[name] = None
            self.history.add("operator", "resumes" if resume else "pauses", note=queue)
            self.tell()

    def register(self, info: WorkerInfo, *, stopped: bool) -> None:
        now = self.model.now()
        known = self.seen.get(info.id)
        if stopped:
            self.seen.pop(info.id, None)
        else:
            self.seen[info.id] = Seen(info, known.started_at if known else now, now)
        self._note_seen(info.id)

    def _note_seen(self, worker: str) -> None:
        """Note since when a worker is in the list, None if it isn't."""
        seen = self.seen.get(worker)
        self.history.add(worker, "is seen", note=seen and seen.started_at)
