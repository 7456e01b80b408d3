"""Why a job isn't running: one true sentence, from what stands in the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from rowlock._answers import Overview, Pause, Reason, Why, WorkerInfo
from rowlock._durations import relative, span
from rowlock._figures import AHEAD_COUNTED, Place
from rowlock._job import Job, Status


class Circumstances(NamedTuple):
    """
    What stands in the store around a job, read one after the other.

    A pending job has no `place` where it changed between the two, again and again.
    """

    job: Job
    seen: Overview
    place: Place | None
    holder: int | None


def claimable(queue: str, seen: Overview) -> frozenset[str]:
    """Name the tasks whose jobs a live worker would claim from a queue."""
    paused = {pause.task for pause in seen.pauses}
    return frozenset(
        task
        for worker in seen.workers
        for task in worker.tasks
        if task not in paused and worker.serves(task, queue)
    )


def so_far(job: Job) -> list[str]:
    """Count what came of a job's earlier attempts, kind by kind."""
    told = []
    if job.failures:
        told.append(f"{job.failures} of {job.max_attempts} failures")
    if job.losses:
        told.append(f"{job.losses} lost worker{'s' * (job.losses > 1)}")
    return told


def running_for(job: Job, now: datetime) -> str:
    """Say for how long a job has been running."""
    return span((now - (job.started_at or job.updated_at)).total_seconds())


def asked(job: Job) -> str:
    """Say that a running job is asked to stop, where it is."""
    return ", and is asked to stop" * (job.cancel_requested_at is not None)


def again(job: Job) -> str:
    """Say how a job that has ended is run again."""
    return f"`rowlock jobs replay {job.id}` runs it again"


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
    job, now = about.job, about.seen.now
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
    reason: Reason = "failed" if job.status is Status.FAILED else "cancelled"
    return reason, f"{how}; {again(job)}"


def _running(job: Job, now: datetime) -> tuple[Reason, str]:
    where = f"on worker {job.worker}, in attempt {job.attempts}"
    runs = f"runs for {running_for(job, now)} {where}"
    if job.leased_until is not None and job.leased_until < now:
        lost = relative(job.leased_until, now)
        return "lost", f"{runs}, whose lease ended {lost}: another worker recovers it"
    return "running", f"{runs}{asked(job)}"


def _pending(about: Circumstances) -> tuple[Reason, str]:
    return _held_up(about.job, about.seen) or _due(about)


def _held_up(job: Job, seen: Overview) -> tuple[Reason, str] | None:
    """Say what keeps a job from being due, if anything does."""
    now = seen.now
    if job.expires_at is not None and job.expires_at <= now and job.attempts == 0:
        late = relative(job.expires_at, now)
        return "expired", f"never starts: it expired {late}, and will be cancelled"
    # A pause that is over before the job is due keeps nothing from running.
    for pause in seen.pauses:
        is_its = job.queue == pause.queue or job.task == pause.task
        if is_its and (pause.until is None or pause.until > max(now, job.run_at)):
            return "paused", _paused(pause, now)
    if job.run_at > now:
        return "scheduled", f"is due {relative(job.run_at, now)}{_so_far(job)}"
    return None


def _due(about: Circumstances) -> tuple[Reason, str]:
    job, seen, place = about.job, about.seen, about.place
    workers = [each for each in seen.workers if each.serves(job.task, job.queue)]
    if not workers:
        return "unserved", _unserved(about)
    due = f"is due since {span((seen.now - job.run_at).total_seconds())}"
    if place is None:
        return "due", f"{due}, and changes all the while: ask again"
    if place.is_suspect:
        return "suspect", (
            f"{due}, and is suspect, since its worker was lost: it runs alone next, and"
            f" waits until a worker holds nothing else{_behind(place)}"
        )
    if (waits := _waits_for_suspects(workers)) is not None:
        reason, said = waits
        return reason, f"{due}{_behind(place) or ', and is the next'}, but {said}"
    if place.ahead:
        speed = f"of which {place.rate:.3g} a second ended in the last minute"
        return "behind", f"{due}{_behind(place)} of its queue, {speed}"
    return _free_or_busy(due, workers)


# What a worker claims nothing for, whatever room it has, and what one that is full is.
_STATES = {
    "alone": ("runs a suspect alone", "run suspects alone"),
    "gives_way": ("gives way to a suspect", "give way to suspects"),
    "full": ("is full", "are full"),
}


def _state(worker: WorkerInfo) -> str:
    if worker.running >= worker.concurrency:
        return "full"
    if worker.alone:
        return "alone"
    return "gives_way" if worker.gives_way else "free"


def _waits_for_suspects(workers: Sequence[WorkerInfo]) -> tuple[Reason, str] | None:
    """Say that no worker claims anything, where that is for a suspect's sake."""
    states = Counter(_state(worker) for worker in workers)
    if states["free"] or states["full"] == len(workers):
        return None
    reason: Reason = "alone" if states["alone"] else "gives_way"
    if len(workers) > 1:
        told = [
            f"{states[state]} {said[states[state] > 1]}"
            for state, said in _STATES.items()
            if states[state]
        ]
        which = f"none of the {len(workers)} workers that could run it claims anything"
        return reason, f"{which}: {', '.join(told)}"
    said = {
        "alone": "runs a suspect alone, and claims nothing until that has ended",
        "gives_way": "gives way to a suspect, which is to start before anything else",
    }
    return reason, f"the one worker that could run it {said[reason]}"


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
    job, seen = about.job, about.seen
    waits = f"is due since {span((seen.now - job.run_at).total_seconds())}, and"
    if any(job.task in worker.tasks for worker in seen.workers):
        return (
            f"{waits} no live worker that has task {job.task!r} serves the queue"
            f" {job.queue!r}"
        )
    seen_at = next((t.seen_at for t in seen.registered if t.name == job.task), None)
    last = (
        "never seen" if seen_at is None else f"last seen {relative(seen_at, seen.now)}"
    )
    return f"{waits} no live worker has task {job.task!r} ({last})"


def _so_far(job: Job) -> str:
    if not (told := so_far(job)):
        return ""
    return f", for attempt {job.attempts + 1} after {' and '.join(told)}"
