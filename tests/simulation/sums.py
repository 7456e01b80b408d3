"""What stands in the end, compared with what the history makes of it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from rowlock._job import Status

from .clock import SOME_DAY
from .history import Event
from .jobs import SETTLE_S
from .laws import Judge
from .record import Record
from .weather import BREATH_S
from .world import PRUNES_S


class Sums:
    """The end of one run."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def check(self) -> None:
        """Compare what stands in the end with what the history makes of it."""
        world = self.judge.world
        last = world.history.events[-1]
        for job_id, record in self.judge.records.items():
            at = last._replace(job=job_id)
            row = world.database.model.rows.get(job_id)
            is_gone = row is None
            self.judge.check(is_gone == record.is_deleted, "sums", at, "it is gone")
            if row is None:
                continue
            self._check_age(record, at)
            for name in ("status", "claims", "attempts", "failures", "losses"):
                stands, should = getattr(row, name), getattr(record, name)
                self.judge.check(
                    stands == should, "sums", at, f"{name} {stands}, not {should}"
                )
            self._check_end(record, at)
        self._check_spawned(last)

    def _check_age(self, record: Record, at: Event) -> None:
        """Law 12: what is older than its retention is gone soon."""
        world = self.judge.world
        if not record.status.is_final or record.finished_at is None:
            return
        calm_s = self.judge.over_at - world.calm_at - SETTLE_S
        over = SOME_DAY + timedelta(seconds=self.judge.over_at + at.ahead)
        age_s = min((over - record.finished_at).total_seconds(), calm_s)
        soon_s = world.kept_s + 1.2 * PRUNES_S + BREATH_S
        self.judge.check(age_s <= soon_s, "law 12", at, f"{age_s:.1f} s old, and there")

    def _check_end(self, record: Record, at: Event) -> None:
        if record.status is Status.RUNNING:
            left = record.holder in self.judge.dead
            self.judge.check(left, "each job ends", at, f"{record.holder} has it still")
            self.judge.check(
                record.leased_until is not None, "each job ends", at, "it has no lease"
            )

    def _check_spawned(self, last: Event) -> None:
        """Law 7: of each success its own jobs, once; of anything else none."""
        found = Counter[tuple[int, int]]()
        for record in self.judge.records.values():
            if meta := record.job.meta:
                found[int(str(meta["job"])), int(str(meta["claim"]))] += 1
        least, most = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for event in self.judge.world.history:
            if event.verb == "ends" and event.note.accepted:
                for job in event.note.outcome.spawned:
                    # Of a key that is held, none is enqueued.
                    least[event.job, event.claim] += job.idempotency_key is None
                    most[event.job, event.claim] += 1
        for parent in found.keys() | least.keys():
            at = last._replace(job=parent[0], claim=parent[1])
            count = found[parent]
            fits = least[parent] <= count <= most[parent]
            self.judge.check(
                fits, "law 7", at, f"of claim {parent[1]} came {count} jobs"
            )
        self.judge.check(
            found.keys() <= self._succeeded(), "law 7", last, "jobs without a success"
        )

    def _succeeded(self) -> set[tuple[int, int]]:
        return {
            (event.job, event.claim)
            for event in self.judge.world.history
            if event.verb == "ends"
            and event.note.accepted
            and event.note.status is Status.SUCCEEDED
        }
