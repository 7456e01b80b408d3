"""
The laws of `src/rowlock/_store.py`, judged by the history of one run.

A `Record` of each job is kept from what happened alone, beside the database: where
the two part, or something happened that a law forbids, the run has failed.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta

from rowlock._job import NewJob, Status
from rowlock._worker.finish import LONGEST_ASK_S
from rowlock._worker.upkeep import LATE_CLAIM_S

from .database import Ended
from .history import Event
from .jobs import LONG_S
from .places import check_places, check_timeout
from .record import Broken, Heard, Record, state_of
from .weather import BREATH_S, LEASE_S
from .world import Up, World

PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLED = Status
# What a lease has room for, that others may be at work (law 17).
LARGEST_JUMP_S = 1.0
LONGEST_GAP_S = LEASE_S / 3 + min(0.5, LEASE_S / 3)


class Judge:
    """Reads a history once; `broken` has what it finds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broken: list[Broken] = []
        self.records: dict[int, Record] = {}
        self.up: dict[str, Up] = {}
        self.dead: dict[str, float] = {}
        # What was found to be over, or held by a dead worker, and by whom.
        self.found: set[tuple[str, int, int]] = set()
        # Whose death a supervisor has heard, until somebody has recovered what it held.
        self.unburied: dict[str, Event] = {}
        self.recovered: set[str] = set()
        self.over_at = math.inf
        self.stopping: set[str] = set()
        self.paused: set[str] = set()
        self.heard: dict[str, Heard] = {}
        self.batches: Counter[tuple[str, float]] = Counter()
        # Claims whose handler runs alone.
        self.suspects: set[tuple[int, int]] = set()
        # Claims whose outcome was given up by who held them.
        self.dropped: set[tuple[int, int]] = set()
        # Claims whose handler's transaction was rolled back, but not before the lease
        # was over, or nearly so.
        self.rolled_back: set[tuple[int, int]] = set()

    def judge(self) -> list[Broken]:
        for event in self.world.history:
            act = ACTS.get(event.verb)
            if act is not None:
                act(self, event)
        for event in self.unburied.values():
            self.check(
                event.time > self.over_at, "a death", event, f"left: {event.note}"
            )
        return self.broken

    def check(self, holds: object, law: str, event: Event, how: str) -> None:
        if not holds:
            self.broken.append(Broken(law, event.job, event.time, how))

    def is_up(self, event: Event) -> None:
        self.up[event.who] = event.note

    def is_down(self, event: Event) -> None:
        self.dead[event.who] = event.time
        for record in self.records.values():
            left = {c: who for c, who in record.running.items() if who != event.who}
            record.running = left

    def is_over(self, event: Event) -> None:
        self.over_at = event.time

    def is_stopping(self, event: Event) -> None:
        self.stopping.add(event.who)

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
        is_over = event.note.leased_until < event.note.read_at
        self.check(is_over, "law 9", event, "its lease isn't over")
        self.found.add((event.who, event.job, event.claim))
        since = self.heard[event.who].since if self._has_no_gap(event) else event.time
        connected_s = event.time - since
        self.check(
            connected_s >= LEASE_S, "law 17", event, f"{connected_s:.1f} s of writing"
        )

    def finds_left(self, event: Event) -> None:
        holder = self.records[event.job].holder
        self.check(holder in self.dead, "law 9", event, f"{holder} isn't dead")
        self.found.add((event.who, event.job, event.claim))

    def is_to_bury(self, event: Event) -> None:
        self.unburied[event.note] = event

    def has_recovered(self, event: Event) -> None:
        """Check that nothing is left that a dead worker held or had asked for."""
        self.unburied.pop(event.note, None)
        self.recovered.add(event.note)
        sent_by = self.dead[event.note] + LATE_CLAIM_S
        for job, record in self.records.items():
            is_left = record.status is RUNNING and record.holder == event.note
            if is_left and record.claimed_at[record.claims] <= sent_by:
                at = event._replace(job=job, claim=record.claims)
                self.check(False, "a death", at, f"left with {event.note}")  # noqa: FBT003

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
        if event.who in self.recovered:
            is_late = event.time > self.dead[event.who] + LATE_CLAIM_S
            self.check(is_late, "a death", event, f"{event.who} was recovered before")
        self.batches[event.who, event.time] += 1
        taken = self.batches[event.who, event.time]
        self.check(taken <= demand.total, "law 13", event, f"{taken} were taken")
        if demand.suspects:
            self.suspects.add((event.job, event.claim))
        record.status, record.holder = RUNNING, event.who
        record.claims, record.attempts = event.claim, record.attempts + 1
        record.started_at = event.now
        record.leased_until = event.now + timedelta(seconds=LEASE_S)
        record.claimed_at[event.claim] = event.time
        record.number_of[event.claim] = record.attempts

    def hears_of(self, event: Event) -> None:
        self.records[event.job].heard_at[event.claim] = event.time

    def extends(self, event: Event) -> None:
        record = self.records[event.job]
        self.check(
            self._holds(record, event) and record.holder == event.who,
            "law 8",
            event,
            f"extended claim {event.claim}, but it is {state_of(record)}",
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
            f" {'accepted' if ended.accepted else 'refused'}, while {state_of(record)}",
        )
        if not ended.accepted:
            return
        self._check_right(event, record, ended)
        self._apply(event, record, ended)

    def _check_right(self, event: Event, record: Record, ended: Ended) -> None:
        """Check that who ended a claim might."""
        if ended.outcome.leased_until is None:
            right = event.who == record.holder
        else:
            right = record.leased_until is not None and record.leased_until < event.now
            # The clock may have been set back since; the fence knows of a renewal.
            right |= (event.who, event.job, event.claim) in self.found
        law = "law 9" if ended.outcome.leased_until else "law 6"
        self.check(right, law, event, f"{event.who} ended a claim of {record.holder}")
        if ended.outcome.leased_until is not None and event.who == record.holder:
            is_over = (event.job, event.claim) in self.dropped
            self.check(is_over, "no loss to itself", event, "it recovers its own")
        if not ended.outcome.lost:
            return
        if (event.job, event.claim) in self.rolled_back:
            return
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
        is_unstarted = event.claim not in record.started
        self.check(
            is_unstarted or not outcome.unstarted, "sums", event, "it was started"
        )
        record.attempts -= outcome.unstarted
        record.failures += outcome.failed
        record.losses += outcome.lost
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
        record.finish(event.now)

    def cancels(self, event: Event) -> None:
        record = self.records[event.job]
        if record.status is RUNNING:
            record.is_asked = True
        else:
            record.status = CANCELLED
            record.finish(event.now)

    def replays(self, event: Event) -> None:
        record = self.records[event.job]
        record.status, record.run_at, record.is_asked = PENDING, event.now, False
        record.failures = record.losses = 0
        self._hold_key(event, record.job)

    def expires(self, event: Event) -> None:
        record = self.records[event.job]
        is_right = record.status is PENDING and record.attempts == 0
        self.check(is_right, "law 12", event, f"it expired, while {state_of(record)}")
        record.status = CANCELLED
        record.finish(event.now)

    def deletes(self, event: Event) -> None:
        record, kept_s = self.records[event.job], self.world.kept_s
        self.check(record.status.is_final, "law 12", event, f"it is {record.status}")
        age_s = (event.now - (record.finished_at or event.now)).total_seconds()
        self.check(age_s >= kept_s, "law 12", event, f"{age_s:.1f} s old, not {kept_s}")
        record.is_deleted = True

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
        record.started[event.claim] = event.time
        record.running[event.claim] = event.who
        check_places(self, event)

    def is_stuck(self, event: Event) -> None:
        """Its place is free, and its outcome on the way."""
        running = self.records[event.job].running
        for claim in [claim for claim, who in running.items() if who == event.who]:
            del running[claim]

    def rolls_back(self, event: Event) -> None:
        leased_until = self.records[event.job].leased_until
        soon = event.now + timedelta(seconds=LONGEST_ASK_S + BREATH_S)
        if leased_until is not None and leased_until < soon:
            self.rolled_back.add((event.job, event.claim))

    def drops(self, event: Event) -> None:
        self.dropped.add((event.job, event.claim))

    def leaves(self, event: Event) -> None:
        record = self.records[event.job]
        if record.running.pop(event.claim, None) is None or event.who in self.stopping:
            return
        check_timeout(self, event)


ACTS = {
    "is up": Judge.is_up,
    "dies": Judge.is_down,
    "has ended": Judge.is_down,
    "can't start": Judge.is_down,
    "breaks down": Judge.breaks_down,
    "is told to stop": Judge.is_stopping,
    "stops everybody": Judge.is_over,
    "pauses": Judge.pauses,
    "resumes": Judge.resumes,
    "is connected": Judge.is_connected,
    "finds over": Judge.finds_over,
    "finds left": Judge.finds_left,
    "is to bury": Judge.is_to_bury,
    "has recovered": Judge.has_recovered,
    "enqueues": Judge.enqueues,
    "claims": Judge.claims,
    "hears of": Judge.hears_of,
    "extends": Judge.extends,
    "hears that it has lost": Judge.hears_lost,
    "gives up": Judge.gives_up,
    "ends": Judge.ends,
    "rolls back": Judge.rolls_back,
    "cancels": Judge.cancels,
    "replays": Judge.replays,
    "expires": Judge.expires,
    "deletes": Judge.deletes,
    "starts": Judge.starts,
    "leaves": Judge.leaves,
    "tells attempt.stuck": Judge.is_stuck,
    "tells outcome.dropped": Judge.drops,
}
