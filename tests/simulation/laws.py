"""
The laws of `src/rowlock/_store.py`, judged by the history of one run.

A `Record` of each job is kept from what happened alone, beside the database: where
the two part, or something happened that a law forbids, the run has failed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from rowlock._job import NewJob, Status

from .database import Ended
from .history import Event
from .weather import LEASE_S
from .world import LONG_S, Up, World

PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLED = Status
# What a lease has room for, that others may be at work (law 17).
LARGEST_JUMP_S = 1.0
LONGEST_GAP_S = LEASE_S / 3 + min(0.5, LEASE_S / 3)


class Broken(NamedTuple):
    """A law that was broken: of which job, at which time, and how."""

    law: str
    job: int
    time: float
    how: str

    def __str__(self) -> str:
        return f"{self.law}: {self.how}"


class Heard(NamedTuple):
    """Since when a worker is connected, when it heard last, and how the clock stood."""

    since: float
    at: float
    ahead: float


@dataclass(slots=True)
class Record:
    """A job, as its history has it."""

    job: NewJob
    run_at: datetime
    status: Status = PENDING
    claims: int = 0
    attempts: int = 0
    failures: int = 0
    losses: int = 0
    holder: str = ""
    leased_until: datetime | None = None
    is_asked: bool = False
    claimed_at: dict[int, float] = field(default_factory=dict)
    number_of: dict[int, int] = field(default_factory=dict)
    ended_by: dict[int, str] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    running: dict[int, str] = field(default_factory=dict)


class Judge:
    """Reads a history once; `broken` has what it finds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broken: list[Broken] = []
        self.records: dict[int, Record] = {}
        self.up: dict[str, Up] = {}
        self.dead: set[str] = set()
        self.paused: set[str] = set()
        self.heard: dict[str, Heard] = {}
        self.batches: Counter[tuple[str, float]] = Counter()
        # Claims whose handler runs alone.
        self.suspects: set[tuple[int, int]] = set()
        self.has_losses = False

    def judge(self) -> list[Broken]:
        for event in self.world.history:
            act = ACTS.get(event.verb)
            if act is not None:
                act(self, event)
        return self.broken

    def check(self, holds: object, law: str, event: Event, how: str) -> None:
        if not holds:
            self.broken.append(Broken(law, event.job, event.time, how))

    def is_up(self, event: Event) -> None:
        self.up[event.who] = event.note

    def is_down(self, event: Event) -> None:
        self.dead.add(event.who)
        for record in self.records.values():
            left = {c: who for c, who in record.running.items() if who != event.who}
            record.running = left

    def breaks_down(self, event: Event) -> None:
        self.check(False, "no worker breaks down", event, event.note)  # noqa: FBT003

    def pauses(self, event: Event) -> None:
        self.paused.add(event.note)

    def resumes(self, event: Event) -> None:
        self.paused.discard(event.note)

    def is_connected(self, event: Event) -> None:
        since = self.heard[event.who].since if self._has_no_gap(event) else event.time
        self.heard[event.who] = Heard(since, event.time, event.ahead)

    def _has_no_gap(self, event: Event) -> bool:
        """Tell whether a worker was connected since it heard from the database."""
        last = self.heard.get(event.who)
        return (
            last is not None
            and event.time - last.at <= LONGEST_GAP_S
            and abs(event.ahead - last.ahead) <= LARGEST_JUMP_S
        )

    def finds_over(self, event: Event) -> None:
        self.check(event.note < event.now, "law 9", event, "its lease isn't over")
        since = self.heard[event.who].since if self._has_no_gap(event) else event.time
        connected_s = event.time - since
        self.check(
            connected_s >= LEASE_S, "law 17", event, f"{connected_s:.1f} s of writing"
        )

    def enqueues(self, event: Event) -> None:
        job = self.world.database.jobs[event.job]
        is_greater = not self.records or event.job > max(self.records)
        self.check(is_greater, "law 20", event, "an id was used again")
        self.records[event.job] = Record(job, event.note)
        self._hold_key(event, job)

    def _hold_key(self, event: Event, job: NewJob) -> None:
        if job.idempotency_key is None:
            return
        name = job.task, job.idempotency_key
        held = [
            job_id
            for job_id, record in self.records.items()
            if (record.job.task, record.job.idempotency_key) == name
            and not record.status.is_final
        ]
        self.check(len(held) == 1, "law 10", event, f"jobs {held} have one key")

    def claims(self, event: Event) -> None:
        record, demand = self.records[event.job], event.note
        self.check(record.status is PENDING, "law 3", event, f"it was {record.status}")
        self.check(
            event.claim == record.claims + 1, "law 5", event, f"after {record.claims}"
        )
        self.check(record.run_at <= event.now, "run_at", event, "claimed before it")
        queue, task = record.job.queue, record.job.task
        self.check(queue not in self.paused, "law 11", event, "its queue is paused")
        self.check(task in demand.tasks, "law 16", event, "of another task")
        self.batches[event.who, event.time] += 1
        taken = self.batches[event.who, event.time]
        self.check(taken <= demand.total, "law 13", event, f"{taken} were taken")
        if demand.suspects:
            self.suspects.add((event.job, event.claim))
        record.status, record.holder = RUNNING, event.who
        record.claims, record.attempts = event.claim, record.attempts + 1
        record.leased_until = event.now + timedelta(seconds=LEASE_S)
        record.claimed_at[event.claim] = event.time
        record.number_of[event.claim] = record.attempts

    def extends(self, event: Event) -> None:
        record = self.records[event.job]
        self.check(
            self._holds(record, event) and record.holder == event.who,
            "law 8",
            event,
            f"extended claim {event.claim}, but it is {_state(record)}",
        )
        record.leased_until = event.note

    def hears_lost(self, event: Event) -> None:
        holds = self._holds(self.records[event.job], event)
        self.check(not holds, "law 8", event, "told lost, but held")

    def gives_up(self, event: Event) -> None:
        record = self.records[event.job]
        by = record.ended_by.get(event.claim)
        self.check(
            by not in (None, event.who),
            "law 8",
            event,
            f"claim {event.claim} was called lost, but ended by {by or 'nobody'}",
        )

    def _holds(self, record: Record, event: Event) -> bool:
        return record.status is RUNNING and record.claims == event.claim

    def ends(self, event: Event) -> None:
        record, ended = self.records[event.job], event.note
        outcome = ended.outcome
        holds = self._holds(record, event) and outcome.leased_until in (
            None,
            record.leased_until,
        )
        self.check(
            ended.is_locked or holds == ended.accepted,
            "law 6",
            event,
            f"an outcome of claim {event.claim} was"
            f" {'accepted' if ended.accepted else 'refused'}, while {_state(record)}",
        )
        if not ended.accepted:
            return
        self._check_right(event, record, ended)
        self._apply(event, record, ended)

    def _check_right(self, event: Event, record: Record, ended: Ended) -> None:
        """Check that who ended a claim might."""
        if event.who == "supervisor":
            right = record.holder in self.dead
        elif ended.outcome.leased_until is None:
            right = event.who == record.holder
        else:
            right = record.leased_until is not None and record.leased_until < event.now
        law = "law 9" if ended.outcome.leased_until else "law 6"
        self.check(right, law, event, f"{event.who} ended a claim of {record.holder}")
        if not ended.outcome.lost or event.who == "supervisor":
            return
        self.has_losses = True
        weather, is_alive = self.world.weather, record.holder not in self.dead
        told = f"recovered, while {record.holder} lives"
        if weather.is_gentle:
            self.check(not is_alive, "no loss without a cause", event, told)
        if weather.only_outages:
            # Whose outcome was dropped has ended, and was cancelled or timed out else.
            runs = event.claim in record.running and is_alive
            is_free = not record.is_asked and record.job.timeout == LONG_S
            self.check(not (runs and is_free), "law 17", event, told)

    def _apply(self, event: Event, record: Record, ended: Ended) -> None:
        outcome = ended.outcome
        is_recovery = outcome.leased_until is not None
        record.ended_by[event.claim] = "recovery" if is_recovery else event.who
        record.status = ended.status or record.status
        record.leased_until = None
        record.attempts -= outcome.unstarted
        record.failures += outcome.failed
        record.losses += outcome.lost
        self.has_losses |= outcome.lost
        if record.is_asked:
            follows = record.status in (SUCCEEDED, CANCELLED)
            self.check(follows, "law 21", event, f"{record.status} after a cancel")
        else:
            self.check(
                record.status is outcome.status,
                "law 6",
                event,
                f"{record.status}, not {outcome.status}",
            )
        if record.status is PENDING:
            again = event.now + outcome.delay
            self.check(
                ended.run_at == again,
                "a return to pending writes a new run_at",
                event,
                f"{ended.run_at:%H:%M:%S.%f} instead of {again:%H:%M:%S.%f}",
            )
            record.run_at = ended.run_at or again

    def cancels(self, event: Event) -> None:
        record = self.records[event.job]
        if record.status is RUNNING:
            record.is_asked = True
        else:
            record.status = CANCELLED

    def replays(self, event: Event) -> None:
        record = self.records[event.job]
        record.status, record.run_at, record.is_asked = PENDING, event.now, False
        record.failures = record.losses = 0
        self._hold_key(event, record.job)

    def expires(self, event: Event) -> None:
        record = self.records[event.job]
        is_right = record.status is PENDING and record.attempts == 0
        self.check(is_right, "law 12", event, f"it expired, while {_state(record)}")
        record.status = CANCELLED

    def starts(self, event: Event) -> None:
        record = self.records[event.job]
        self.check(
            event.claim not in record.started, "law 3", event, "one claim, two starts"
        )
        number = record.number_of.get(event.claim)
        self.check(
            event.note == number, "sums", event, f"number {event.note}, not {number}"
        )
        beside = [
            claim
            for claim in record.running
            if claim not in record.ended_by and claim != event.claim
        ]
        is_live = event.claim not in record.ended_by
        self.check(
            not (beside and is_live), "law 3", event, f"claims {beside} run beside it"
        )
        took = event.time - record.claimed_at.get(event.claim, 0.0)
        self.check(took < LEASE_S, "law 3", event, f"{took:.1f} s after its claim")
        record.started.add(event.claim)
        record.running[event.claim] = event.who
        self._check_room(event)
        self._check_alone(event)

    def _check_room(self, event: Event) -> None:
        running = sum(
            claim not in record.ended_by
            for record in self.records.values()
            for claim, who in record.running.items()
            if who == event.who
        )
        most = self.up[event.who].concurrency
        self.check(running <= most, "concurrency", event, f"{running} of {most} run")

    def _check_alone(self, event: Event) -> None:
        """Check that who runs a suspect runs nothing else."""
        runs = {
            (job, claim)
            for job, record in self.records.items()
            for claim, who in record.running.items()
            if who == event.who and claim not in record.ended_by
        }
        alone = runs & self.suspects
        self.check(
            not alone or len(runs) == 1, "alone", event, f"{sorted(runs)} run at once"
        )

    def is_stuck(self, event: Event) -> None:
        """Its place is free, and its outcome on the way."""
        running = self.records[event.job].running
        for claim in [claim for claim, who in running.items() if who == event.who]:
            del running[claim]

    def leaves(self, event: Event) -> None:
        self.records[event.job].running.pop(event.claim, None)


def _state(record: Record) -> str:
    return f"{record.status} under claim {record.claims} of {record.holder or 'none'}"


ACTS = {
    "is up": Judge.is_up,
    "dies": Judge.is_down,
    "has ended": Judge.is_down,
    "can't start": Judge.is_down,
    "breaks down": Judge.breaks_down,
    "pauses": Judge.pauses,
    "resumes": Judge.resumes,
    "is connected": Judge.is_connected,
    "finds over": Judge.finds_over,
    "enqueues": Judge.enqueues,
    "claims": Judge.claims,
    "extends": Judge.extends,
    "hears that it has lost": Judge.hears_lost,
    "gives up": Judge.gives_up,
    "ends": Judge.ends,
    "cancels": Judge.cancels,
    "replays": Judge.replays,
    "expires": Judge.expires,
    "starts": Judge.starts,
    "leaves": Judge.leaves,
    "tells attempt.stuck": Judge.is_stuck,
}
