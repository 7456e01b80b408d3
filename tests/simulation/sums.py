"""What stands in the end, compared with what the history makes of it."""

from __future__ import annotations

from collections import Counter

from rowlock._job import Status

from .history import Event
from .laws import Judge, Record


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
            row = world.database.model.rows[job_id]
            for name in ("status", "claims", "attempts", "failures", "losses"):
                stands, should = getattr(row, name), getattr(record, name)
                self.judge.check(
                    stands == should, "sums", at, f"{name} {stands}, not {should}"
                )
            self._check_end(record, at)
        self._check_spawned(last)

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
