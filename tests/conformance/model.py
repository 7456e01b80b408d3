"""
The laws as plain Python over a dict: what a store may answer, and what then stands.

A method is told the answer, says whether the laws allow it, and moves on as the store
has. What no law fixes is the store's: ids, and which of several queues it serves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from rowlock._clock import Clock
from rowlock._job import Claim, ClaimKey, NewJob, Outcome, Status
from rowlock._store import Answer, Claimed, Demand, Renewal, Retention, Settled

from .row import Row

__all__ = ["ENDED", "MAY", "Model", "Row"]

PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLED = Status
DAY, FOREVER = timedelta(days=1), timedelta(days=10**6)
ENDED = {SUCCEEDED, FAILED, CANCELLED}
MAY = {"cancel": {PENDING, RUNNING}, "replay": ENDED - {SUCCEEDED}, "move": {PENDING}}


class Model:
    def __init__(self, clock: Clock) -> None:
        self.now = clock.now
        self.rows: dict[int, Row] = {}
        self.pauses: dict[tuple[str | None, str | None], datetime | None] = {}
        self.last_id = 0

    def holder(self, job: Row | NewJob) -> int | None:
        """Law 10: which job holds the key of this one."""
        rows = (row for row in self.having(job) if row.holds_key(self.now()))
        return next((row.id for row in rows), None)

    def having(self, job: Row | NewJob) -> list[Row]:
        """All jobs with the key of this one; what was kept for long enough is freed."""
        name = job.task, job.idempotency_key
        rows = [r for r in self.rows.values() if (r.task, r.idempotency_key) == name]
        for row in rows:
            row.key_freed |= bool(row.key_until and row.key_until <= self.now())
        return rows

    def blocker(self, row: Row) -> int | None:
        """Law 10: whose key it is that this job would have again."""
        holder = self.holder(row)
        return None if holder == row.id else holder

    def held(self, key: ClaimKey, read: datetime | None = None) -> Row | None:
        """Law 6, the fence, and 9: the row, where this claim holds it as was read."""
        row = self.rows.get(key.job_id)
        holds = row and (row.status, row.claims) == (RUNNING, key.claim)
        return row if row and holds and read in (None, row.leased_until) else None

    def enqueue(self, jobs: Sequence[NewJob], ids: Sequence[int | None]) -> None:
        """Laws 1, 10 and 20."""
        now = self.now()
        for new, job_id in zip(jobs, ids, strict=True):
            if (row := self.rows.get(self.holder(new) or 0)) and self.has_expired(row):
                row.expire(now)
            holder = self.rows.get(self.holder(new) or 0)
            assert (job_id is None) == (holder is not None)
            if holder and (new.on_conflict, holder.status) == ("replace", PENDING):
                holder.payload, holder.run_at = new.payload, now + new.delay
                holder.expires_at = new.expires_at
            if job_id is not None:
                assert job_id > self.last_id
                self.last_id = job_id
                of_it = (new.task, new.queue, new.priority, new.idempotency_key)
                when = (new.expires_at, now + new.delay)
                kept = (new.payload, new.idempotency_for)
                self.rows[job_id] = Row(job_id, *of_it, *when, *kept)

    def has_expired(self, row: Row) -> bool:
        is_late = row.expires_at is not None and row.expires_at < self.now()
        return is_late and row.status is PENDING and row.attempts == 0

    def fitting(self, demand: Demand) -> list[Row]:
        """Law 4: what fits, now or later, in order; suspects behind a limit, too."""
        paused = {n for n, end in self.pauses.items() if not end or end > self.now()}
        left = demand.queues or {row.queue: 1 for row in self.rows.values()}
        rows = [
            row
            for row in self.rows.values()
            if (row.status, row.task in demand.tasks) == (PENDING, True)
            and min(left.get(row.queue, -1), 1) > demand.suspects - row.suspect
            and not paused & {(row.queue, None), (None, row.task)}
            and not self.has_expired(row)
        ]
        return sorted(rows, key=lambda row: (-row.priority, row.run_at, row.id))

    def claim(self, demand: Demand, claimed: Claimed, *, alone: bool) -> None:
        """Laws 3, 4, 5, 11, 13, 16 and 19: an early or a vain look costs nothing."""
        now, wanted = self.now(), self.fitting(demand)
        due = [r for r in wanted if r.run_at <= now and r.suspect == demand.suspects]
        limits = demand.queues or {row.queue: demand.total for row in due}
        lines = {name: [row.id for row in due if row.queue == name] for name in limits}
        room = sum(min(limits[name], len(line)) for name, line in lines.items())
        assert (claimed.now, len(claimed.claims)) == (now, min(demand.total, room))
        for name, line in lines.items():
            ids = [held.job_id for held in claimed.claims if held.queue == name]
            assert ids == line[: min(len(ids), limits[name])]
        for held in claimed.claims:
            row = self.rows[held.job_id]
            assert held.key == (row.id, row.claims + 1)
            row.status, row.worker, row.started_at = RUNNING, held.worker, now
            row.claims, row.attempts = row.claims + 1, row.attempts + 1
            row.leased_until, row.alone, row.abandoned = held.leased_until, alone, False
        planned = [row.run_at for row in wanted if row.run_at > now and demand.total]
        assert not planned or (claimed.next_due and claimed.next_due <= min(planned))
        passed = [r.run_at for r in wanted if r.suspect > demand.suspects]
        since = min((at for at in passed if at <= now), default=None)
        told, is_full = claimed.suspect_since, 0 < demand.total == len(claimed.claims)
        stands = told if is_full and told and told <= (since or told) else since
        assert (told, claimed.chosen_since) == (stands, stands)

    def renew(self, keys: Collection[ClaimKey], told: Renewal) -> list[Row]:
        """Law 8; the rows to extend."""
        rows = {key: row for key in keys if (row := self.held(key))}
        asked = frozenset(key for key, row in rows.items() if row.cancel_requested_at)
        assert told == Renewal(lost=frozenset(keys) - set(rows), cancelled=asked)
        return list(rows.values())

    def finish(self, outcomes: Sequence[Outcome], settled: Sequence[Settled]) -> None:
        """Laws 6 and 7."""
        for outcome, answer in zip(outcomes, settled, strict=True):
            if row := self.held(outcome.key, outcome.leased_until):
                self.end(row, outcome)
            now = self.rows.get(outcome.key.job_id)
            stands = (now.status, now.claims) if now else (None, None)
            due = row.run_at if row and row.status is PENDING else None
            assert answer[:5] == (outcome.key, row is not None, *stands, due)
            self.enqueue(outcome.spawned if row else (), answer.spawned)

    def end(self, row: Row, outcome: Outcome) -> None:
        """Law 21, and what an outcome charges."""
        now, row.status, row.leased_until = self.now(), outcome.status, None
        if row.cancel_requested_at and row.status is not SUCCEEDED:
            row.status = CANCELLED
        again, ended_at = now + outcome.delay, max(now, row.started_at or now)
        row.run_at = again if row.status is PENDING else row.run_at
        row.finished_at = None if row.status is PENDING else ended_at
        row.attempts -= outcome.unstarted
        row.started_at = row.started_at if row.attempts else None
        row.failures += outcome.failed
        row.losses += outcome.lost
        row.suspect = outcome.lost or (outcome.unstarted and row.suspect)
        row.errors += [str(outcome.error["message"])] if outcome.error else []

    def lost(self, claims: Sequence[Claim], limit: int, worker: str | None) -> None:
        """Laws 9 and 13."""
        over = {(r.id, r.claims) for r in self.rows.values() if self.is_lost(r, worker)}
        told = {held.key for held in claims} & over
        assert len(told) == len(claims) == min(limit, len(over))

    def is_lost(self, row: Row, worker: str | None) -> bool:
        late = row.leased_until is not None and row.leased_until < self.now()
        return late if worker is None else (row.status, row.worker) == (RUNNING, worker)

    def prune(self, retention: Retention, left: Collection[int]) -> None:
        """Law 12, once prune had nothing left to do."""
        for row in self.rows.values():
            if self.has_expired(row):
                row.expire(self.now())
            self.having(row)
            kept = getattr(retention, row.status, FOREVER)
            age = self.now() - (row.finished_at or self.now())
            stays = age <= kept + DAY or row.key_until
            assert stays if row.id in left else age >= kept and not row.key_until
        self.rows = {row_id: self.rows[row_id] for row_id in left}

    def operate(self, verb: str, answers: Sequence[Answer], by: str) -> None:
        """Cancel, replay (of one key the newest), move, delete: laws 10 and 21."""
        now = self.now()
        for answer in sorted(answers, key=lambda answer: -answer.job_id):
            row = self.rows.get(answer.job_id)
            may = row is not None and row.status in MAY.get(verb, ENDED)
            blocker = self.blocker(row) if row and may and verb == "replay" else None
            assert (answer.done, answer.blocked_by) == (may and not blocker, blocker)
            if row is None or not answer.done:
                assert answer.status == (row and row.status)
                continue
            if not (row.status is RUNNING and row.cancel_requested_at):
                row.errors.append(by)
            if verb == "delete":
                del self.rows[row.id]
            elif verb == "replay":
                row.status, row.run_at, row.failures, row.losses = PENDING, now, 0, 0
                row.cancel_requested_at = row.expires_at = row.finished_at = None
                row.suspect = row.key_freed = False
            elif verb == "cancel" and row.status is RUNNING:
                row.cancel_requested_at = row.cancel_requested_at or now
            elif verb == "cancel":
                row.status, row.finished_at = CANCELLED, max(now, row.started_at or now)
