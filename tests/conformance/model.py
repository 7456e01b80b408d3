"""
The laws as plain Python over a dict: what a store may show after each verb.

A method is told what the store answered, says whether the laws allow that answer, and
moves on as the store has. What no law fixes is taken from the store: ids, and which of
several queues a claim takes its jobs from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from rowlock._job import Claim, ClaimKey, Job, NewJob, Outcome, Status
from rowlock._store import Answer, Claimed, Demand, Pause, Renewal, Retention, Settled
from rowlock.testing import FakeClock

DAY = timedelta(days=1)
Gone = Status.SUCCEEDED, Status.FAILED, Status.CANCELLED


class Model:
    """Jobs and pauses by name, on the clock that the store reads."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.jobs: dict[int, Job] = {}
        self.pauses: dict[tuple[str | None, str | None], datetime | None] = {}
        self.marks: dict[ClaimKey, tuple[bool, bool]] = {}
        self.last_id = 0

    def holder(self, job: Job | NewJob) -> int | None:
        """Find the unfinished job that holds the key of this one (law 10)."""
        name = job.task, job.idempotency_key
        return next(
            (
                other.id
                for other in self.jobs.values()
                if (other.task, other.idempotency_key) == name
                and other.idempotency_key is not None
                and not other.status.is_final
            ),
            None,
        )

    def holds(self, key: ClaimKey) -> bool:
        """Say whether the claim still holds its job: the fence of law 6."""
        job = self.jobs.get(key.job_id)
        return job is not None and (job.status, job.claims) == ("running", key.claim)

    def change(self, job_id: int, **fields: object) -> None:
        """Write fields of one job."""
        self.jobs[job_id] = replace(self.jobs[job_id], **fields)  # type: ignore[arg-type]  # any field

    def add_error(self, job_id: int, words: str) -> None:
        """Note a failure or an act; the last ten stay."""
        self.change(job_id, errors=(*self.jobs[job_id].errors, {"words": words})[-10:])

    def enqueue(self, jobs: Sequence[NewJob], ids: Sequence[int | None]) -> None:
        """Laws 1, 10 and 20."""
        now = self.clock.now()
        for new, job_id in zip(jobs, ids, strict=True):
            assert (job_id is None) == (self.holder(new) is not None)
            if job_id is None:
                continue
            assert job_id > self.last_id
            self.last_id = job_id
            self.jobs[job_id] = Job(
                id=job_id, queue=new.queue, task=new.task, payload={},
                status=Status.PENDING, priority=new.priority,
                run_at=new.run_at or now + new.delay, expires_at=new.expires_at,
                claims=0, attempts=0, failures=0, losses=0,
                max_attempts=new.max_attempts, timeout=None, backoff=None,
                idempotency_key=new.idempotency_key, leased_until=None, worker=None,
                cancel_requested_at=None, last_error=None, errors=(), result=None,
                state=None, progress=None, meta={}, created_at=now, started_at=None,
                finished_at=None, updated_at=now,
            )  # fmt: skip

    def has_expired(self, job: Job) -> bool:
        """Say whether the job was not started in time."""
        late = job.expires_at is not None and job.expires_at < self.clock.now()
        return job.status is Status.PENDING and job.attempts == 0 and late

    def fitting(self, demand: Demand) -> list[Job]:
        """Tell the jobs that may be claimed now or later, in law 4's order."""
        paused = {
            name for name, end in self.pauses.items() if not end or end > self.clock.now()
        }
        return sorted(
            (
                job
                for job in self.jobs.values()
                if job.status is Status.PENDING
                and job.task in demand.tasks
                and (demand.queues is None or demand.queues.get(job.queue, 0) > 0)
                and not paused & {(job.queue, None), (None, job.task)}
                and not self.has_expired(job)
            ),
            key=lambda job: (-job.priority, job.run_at, job.id),
        )

    def claim(
        self, demand: Demand, claimed: Claimed, worker: str, lease: timedelta, *, alone: bool
    ) -> None:
        """Laws 3, 4, 5, 11, 13 and 16."""
        now = self.clock.now()
        due = [job for job in self.fitting(demand) if job.run_at <= now]
        limits = demand.queues or {job.queue: demand.total for job in due}
        room = {
            queue: min(limit, sum(job.queue == queue for job in due))
            for queue, limit in limits.items()
        }
        assert len(claimed.claims) == min(demand.total, sum(room.values()))
        assert claimed.now == now
        for queue, limit in room.items():
            ids = [held.job_id for held in claimed.claims if held.queue == queue]
            assert len(ids) <= limit
            assert ids == [job.id for job in due if job.queue == queue][: len(ids)]
        for held in claimed.claims:
            job = self.jobs[held.job_id]
            self.change(
                job.id,
                status=Status.RUNNING,
                claims=job.claims + 1,
                attempts=job.attempts + 1,
                leased_until=now + lease,
                worker=worker,
                started_at=now,
            )
            self.marks[held.key] = alone, False
            self.check_claim(held)
        planned = [job.run_at for job in self.fitting(demand) if job.run_at > now]
        if planned and claimed.next_due is not None:
            assert claimed.next_due <= min(planned)
        assert not planned or claimed.next_due is not None

    def check_claim(self, held: Claim) -> None:
        """A claim tells what stands in the store."""
        job = self.jobs[held.job_id]
        assert held.key == (job.id, job.claims)
        assert (held.alone, held.abandoned) == self.marks[held.key]
        for field in (
            "task queue priority attempts failures losses max_attempts worker state"
            " idempotency_key run_at created_at started_at leased_until"
            " cancel_requested_at"
        ).split():
            assert getattr(held, field) == getattr(job, field), field

    def renew(
        self, keys: Collection[ClaimKey], renewal: Renewal, lease: timedelta, *, abandoned: bool
    ) -> None:
        """Law 8."""
        held = {key for key in keys if self.holds(key)}
        assert renewal.lost == set(keys) - held
        assert renewal.cancelled == {
            key for key in held if self.jobs[key.job_id].cancel_requested_at
        }
        for key in held:
            self.change(key.job_id, leased_until=self.clock.now() + lease)
            self.marks[key] = self.marks[key][0], self.marks[key][1] or abandoned

    def finish(self, outcomes: Sequence[Outcome], settled: Sequence[Settled]) -> None:
        """Laws 6, 7 and 21."""
        for outcome, answer in zip(outcomes, settled, strict=True):
            assert answer.key == outcome.key
            assert answer.accepted == self.holds(outcome.key)
            if answer.accepted:
                self.end(outcome)
            job = self.jobs.get(outcome.key.job_id)
            assert answer.status == (job and job.status)
            assert answer.claims == (job and job.claims)
            back = answer.accepted and answer.status is Status.PENDING
            assert answer.run_at == (job.run_at if job and back else None)
            self.enqueue(outcome.spawned if answer.accepted else (), answer.spawned)

    def end(self, outcome: Outcome) -> None:
        """Write an accepted outcome."""
        now, job = self.clock.now(), self.jobs[outcome.key.job_id]
        status = outcome.status
        if job.cancel_requested_at and status is not Status.SUCCEEDED:
            status = Status.CANCELLED
        final = status.is_final
        self.change(
            job.id,
            status=status,
            run_at=job.run_at if final else now + outcome.delay,
            finished_at=max(now, job.started_at or now) if final else None,
            attempts=job.attempts - outcome.unstarted,
            failures=job.failures + outcome.failed,
            losses=job.losses + outcome.lost,
            leased_until=None,
        )
        if outcome.error is not None:
            self.add_error(job.id, str(outcome.error["message"]))

    def lost(self, claims: Sequence[Claim], expected: Iterable[Job], limit: int) -> None:
        """Laws 9 and 13."""
        keys = {(job.id, job.claims) for job in expected}
        assert {held.key for held in claims} <= keys
        assert len(claims) == min(limit, len(keys))
        for held in claims:
            self.check_claim(held)

    def running(self, worker: str | None = None) -> list[Job]:
        """Tell what a worker holds, or whose lease is over."""
        return [
            job
            for job in self.jobs.values()
            if job.leased_until
            and (job.worker == worker if worker else job.leased_until < self.clock.now())
        ]

    def prune(self, retention: Retention, left: Collection[int]) -> None:
        """Law 12, after prune had nothing left to do."""
        now = self.clock.now()
        for job in list(self.jobs.values()):
            if self.has_expired(job):
                self.change(job.id, status=Status.CANCELLED, finished_at=now)
            kept: timedelta | None = getattr(retention, self.jobs[job.id].status, None)
            ended = self.jobs[job.id].finished_at
            if job.id not in left:
                assert kept is not None
                assert ended is not None
                assert now - ended >= kept
                del self.jobs[job.id]
            elif kept is not None and ended is not None:
                assert now - ended <= kept + DAY

    def operate(self, verb: str, answers: Sequence[Answer], **fields: object) -> None:
        """Cancel, replay, move or delete: an answer an id, done or the state found."""
        now = self.clock.now()
        named = [answer.job_id for answer in answers]
        for answer in sorted(answers, key=lambda answer: -answer.job_id):
            job = self.jobs.get(answer.job_id)
            if job is None:
                assert answer == Answer(job_id=answer.job_id, done=False, status=None)
                continue
            possible = {
                "cancel": not job.status.is_final,
                "replay": job.status in (Status.FAILED, Status.CANCELLED),
                "move": job.status is Status.PENDING,
                "delete": job.status.is_final,
            }[verb]
            blocked = self.holder(job) if verb == "replay" and possible else None
            assert answer.done == (possible and blocked is None), (verb, job, named)
            assert answer.blocked_by == blocked
            if not answer.done:
                assert answer.status == job.status
            elif verb == "delete":
                del self.jobs[job.id]
            elif verb == "move":
                self.change(job.id, **fields)
            elif verb == "replay":
                self.change(
                    job.id, status=Status.PENDING, run_at=now, failures=0, losses=0,
                    cancel_requested_at=None, expires_at=None, finished_at=None,
                )  # fmt: skip
            elif job.status is Status.RUNNING:
                asked = job.cancel_requested_at or now
                self.change(job.id, cancel_requested_at=asked)
            else:
                self.change(job.id, status=Status.CANCELLED, finished_at=now)

    def pause(self, pause: Pause, until: datetime | None) -> None:
        """Law 11."""
        self.pauses[pause.queue, pause.task] = until
