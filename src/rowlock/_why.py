"""Why a job isn't running: one true sentence, from what stands in the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from rowlock._answers import Pause, Reason, Stats, Why, WorkerInfo
from rowlock._figures import AHEAD_COUNTED, Place
from rowlock._instants import relative, span
from rowlock._job import Job, Status


class Circumstances(NamedTuple):
    """What stands in the store around a job, read one after the other."""

    job: Job
    stats: Stats
    place: Place | None
    holder: int | None


def serving(job: Job, stats: Stats) -> Sequence[WorkerInfo]:
    """Give the live workers that could run a job."""
    return [
        worker
        for worker in stats.workers
        if job.task in worker.tasks and serves(worker, job.queue)
    ]


def serves(worker: WorkerInfo, queue: str) -> bool:
    """Tell whether a worker claims from a queue."""
    return worker.queues is None or queue in worker.queues


def claimable(queue: str, stats: Stats) -> frozenset[str]:
    """Name the tasks whose jobs a live worker would claim from a queue."""
    paused = {pause.task for pause in stats.pauses}
    return frozenset(
        task
        for worker in stats.workers
        if serves(worker, queue)
        for task in worker.tasks
        if task not in paused
    )


def pauses_of(job: Job, stats: Stats) -> Sequence[Pause]:
    """Give the pauses that keep a job from being claimed."""
    return [
        pause
        for pause in stats.pauses
        if job.queue == pause.queue or job.task == pause.task
    ]


def judge(about: Circumstances) -> Why:
    """Judge why a job isn't running."""
    job = about.job
    judged = _pending(about) if job.status is Status.PENDING else _other(about)
    reason, said = judged
    return Why(
        job_id=job.id,
        status=job.status,
        reason=reason,
        sentence=f"Job {job.id} {said}.",
    )


def _other(about: Circumstances) -> tuple[Reason, str]:
    job, now = about.job, about.stats.now
    if job.status is Status.RUNNING:
        return _running(job, now)
    ended = relative(job.finished_at or job.updated_at, now)
    if job.status is Status.SUCCEEDED:
        return "succeeded", f"succeeded {ended}, in attempt {job.attempts}"
    error = (job.last_error or "").partition("\n")[0]
    failed = f"is a dead letter since {ended}{f', of {error}' * bool(error)}"
    how = failed if job.status is Status.FAILED else f"was cancelled {ended}"
    if about.holder is not None:
        held = f"its key {job.idempotency_key!r} is held by job {about.holder}"
        return "blocked", f"{how}, and can't be replayed while {held}"
    again = f"`rowlock jobs replay {job.id}` runs it again"
    return ("failed" if job.status is Status.FAILED else "cancelled"), f"{how}; {again}"


def _running(job: Job, now: datetime) -> tuple[Reason, str]:
    since = span((now - (job.started_at or job.updated_at)).total_seconds())
    runs = f"runs for {since} on worker {job.worker}, in attempt {job.attempts}"
    if job.leased_until is not None and job.leased_until < now:
        lost = relative(job.leased_until, now)
        return "lost", f"{runs}, whose lease ended {lost}: another worker recovers it"
    asked = ", and is asked to stop" * (job.cancel_requested_at is not None)
    return "running", f"{runs}{asked}"


def _pending(about: Circumstances) -> tuple[Reason, str]:
    return _held_up(about.job, about.stats) or _due(about)


def _held_up(job: Job, stats: Stats) -> tuple[Reason, str] | None:
    """Say what keeps a job from being due, if anything does."""
    now = stats.now
    if job.expires_at is not None and job.expires_at <= now and job.attempts == 0:
        late = relative(job.expires_at, now)
        return "expired", f"never starts: it expired {late}, and will be cancelled"
    # A pause that is over before the job is due keeps nothing from running.
    for pause in pauses_of(job, stats):
        if pause.until is None or pause.until > max(now, job.run_at):
            return "paused", _paused(pause, now)
    if job.run_at > now:
        return "scheduled", f"is due {relative(job.run_at, now)}{_so_far(job)}"
    return None


def _due(about: Circumstances) -> tuple[Reason, str]:
    job, stats = about.job, about.stats
    if not (workers := serving(job, stats)):
        return "unserved", _unserved(about)
    due = f"is due since {span((stats.now - job.run_at).total_seconds())}"
    if about.place is None:
        return "due", f"{due}, and was just claimed"
    if about.place.is_suspect:
        return "suspect", (
            f"{due}, and is suspect, since its worker was lost: it runs alone next, and"
            f" waits until a worker holds nothing else{_behind(about.place)}"
        )
    if about.place.ahead:
        rate = next((q.rate for q in stats.queues if q.queue == job.queue), 0.0)
        speed = f"of which {rate:.3g} a second ended in the last minute"
        return "behind", f"{due}{_behind(about.place)} of its queue, {speed}"
    return _free_or_busy(due, workers)


def _free_or_busy(due: str, workers: Sequence[WorkerInfo]) -> tuple[Reason, str]:
    running = sum(worker.running for worker in workers)
    room = sum(worker.concurrency for worker in workers)
    if all(worker.running >= worker.concurrency for worker in workers):
        all_of = f"{len(workers)} workers" if len(workers) > 1 else "one worker"
        busy = f"the {all_of} that could run it {_are(workers)} full"
        return "busy", f"{due}, and is the next, but {busy} ({running} of {room} run)"
    return "due", (
        f"{due} and the next, and a worker has room for it: where it stays so, a"
        " transaction holds its row, or `rowlock doctor` tells more"
    )


def _are(workers: Sequence[WorkerInfo]) -> str:
    return "are" if len(workers) > 1 else "is"


def _behind(place: Place) -> str:
    if not place.ahead:
        return ""
    least = "at least " * (place.ahead >= AHEAD_COUNTED)
    jobs = f"{least}{place.ahead:,} job{'s' * (place.ahead > 1)}"
    better = f" ({place.by_priority:,} of better priority)" if place.by_priority else ""
    return f", behind {jobs}{better}"


def _paused(pause: Pause, now: datetime) -> str:
    kind = "task" if pause.queue is None else "queue"
    name = pause.task if pause.queue is None else pause.queue
    since = "" if pause.at is None else f" since {relative(pause.at, now)}"
    by = f" by {pause.by}" if pause.by else ""
    until = f"until `rowlock {kind}s resume {name}`"
    if pause.until is not None:
        left = span((pause.until - now).total_seconds())
        until = f"for another {left}, or {until}"
    reason = f" ({pause.reason})" if pause.reason else ""
    return f"waits: its {kind} {name!r} is paused{since}{by}{reason}, {until}"


def _unserved(about: Circumstances) -> str:
    job, stats = about.job, about.stats
    waits = f"is due since {span((stats.now - job.run_at).total_seconds())}, and"
    if any(job.task in worker.tasks for worker in stats.workers):
        return (
            f"{waits} no live worker that has task {job.task!r} serves the queue"
            f" {job.queue!r}"
        )
    seen_at = next((t.seen_at for t in stats.registered if t.name == job.task), None)
    seen = (
        "never seen" if seen_at is None else f"last seen {relative(seen_at, stats.now)}"
    )
    return f"{waits} no live worker has task {job.task!r} ({seen})"


def _so_far(job: Job) -> str:
    told = []
    if job.failures:
        told.append(f"{job.failures} of {job.max_attempts} failures")
    if job.losses:
        told.append(f"{job.losses} lost worker{'s' * (job.losses > 1)}")
    if not told:
        return ""
    return f", for attempt {job.attempts + 1} after {' and '.join(told)}"
