"""Why a job isn't running: one true sentence, from what stands in the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from rowlock._answers import Overview, Pause, Reason, Why, WorkerInfo
from rowlock._durations import relative, span
from rowlock._errors import StoreError, StoreUnavailable
from rowlock._figures import AHEAD_COUNTED, Place
from rowlock._job import ClaimKey, Job, Status, error_of
from rowlock._lent import Fate, Lent
from rowlock._words import count

_TRANSACTION = (
    "a transaction has its row, as hold() and complete() take it: it is neither lost"
    " nor recovered until that ends; pg_stat_activity shows whose that is, and"
    " `idle_in_transaction_session_timeout` bounds it"
)

# After every instant that a store has.
FOR_GOOD = datetime.max.replace(tzinfo=UTC)


class Circumstances(NamedTuple):
    """
    What stands in the store around a job, read one after the other.

    A pending job has no `place` where it changed between the two, again and again.
    `kept` says what keeps a running one whose lease is over from being recovered.
    """

    job: Job
    seen: Overview
    place: Place | None
    holder: int | None
    kept: str | None = None


def claimable(job: Job, seen: Overview) -> frozenset[str]:
    """Name the tasks whose jobs a worker that could run this one would claim, too."""
    paused = {pause.task for pause in seen.pauses}
    return frozenset(
        task
        for worker in _workers(job, seen)
        for task in worker.tasks
        if task not in paused
    )


def _workers(job: Job, seen: Overview) -> list[WorkerInfo]:
    return [worker for worker in seen.workers if worker.serves(job.task, job.queue)]


def holds_key(job: Job, now: datetime) -> bool:
    """Say whether a job keeps others of its task from having its key."""
    is_kept = job.key_until is not None and job.key_until > now
    return is_kept or not job.status.is_final


def is_overdue(job: Job, now: datetime) -> bool:
    """Say whether a job is running whose lease is over."""
    is_over = job.leased_until is not None and job.leased_until < now
    return is_over and job.status is Status.RUNNING


async def kept_by(lent: Lent, job: Job, now: datetime) -> str | None:
    """Say what keeps a running job from being recovered; None while it needs none."""
    if not is_overdue(job, now):
        return None
    try:
        (fate,) = await lent.settled([ClaimKey(job.id, job.claims)])
    except StoreUnavailable as error:
        # As on SQLite, where a transaction keeps out all that write.
        what, *_ = str(error).partition(": ")
        return f"nobody can recover it for now: {what[:1].lower()}{what[1:]}"
    except StoreError:  # whoever may only read can't ask
        return None
    return _TRANSACTION if fate is Fate.OPEN else None


def so_far(job: Job) -> list[str]:
    """Count what came of a job's earlier attempts, kind by kind."""
    told = []
    if job.failures:
        told.append(f"{job.failures} of {job.max_attempts} failures")
    if job.losses:
        told.append(count(job.losses, "lost worker"))
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
        return _running(job, about.seen, about.kept)
    ended = relative(job.finished_at or job.updated_at, now)
    if job.status is Status.SUCCEEDED:
        return "succeeded", f"succeeded {ended}, in attempt {job.attempts}"
    error = error_of(job)
    failed = f"became a dead letter {ended}{f', of {error}' if error else ''}"
    how = failed if job.status is Status.FAILED else f"was cancelled {ended}"
    if about.holder is not None:
        held = f"its key {job.idempotency_key!r} is held by job {about.holder}"
        return "blocked", f"{how}, and can't be replayed while {held}"
    reason: Reason = "failed" if job.status is Status.FAILED else "cancelled"
    return reason, f"{how}; {again(job)}"


def _running(job: Job, seen: Overview, kept: str | None) -> tuple[Reason, str]:
    now = seen.now
    where = f"on worker {job.worker}, in attempt {job.attempts}"
    runs = f"runs for {running_for(job, now)} {where}"
    if job.leased_until is not None and is_overdue(job, now):
        lost = f"{runs}, whose lease ended {relative(job.leased_until, now)}"
        if kept is not None:
            return "held", f"{lost}, and {kept}"
        if seen.workers:
            return "lost", f"{lost}: a live one recovers it"
        return "lost", f"{lost}: it is recovered when a worker is started"
    if not any(worker.id == job.worker for worker in seen.workers):
        until = "" if job.leased_until is None else relative(job.leased_until, now)
        return "lost", (
            f"is held by worker {job.worker}, which isn't live any more: it is"
            f" recovered when its lease ends, {until}"
        )
    return "running", f"{runs}{asked(job)}"


def _pending(about: Circumstances) -> tuple[Reason, str]:
    return _held_up(about.job, about.seen) or _due(about)


def _held_up(job: Job, seen: Overview) -> tuple[Reason, str] | None:
    """Say what keeps a job from being due, if anything does."""
    now = seen.now
    pause = _lasting(job, seen)
    # A pause that is over before the job is due keeps nothing from running.
    starts = job.run_at
    if pause is not None:
        starts = FOR_GOOD if pause.until is None else max(starts, pause.until)
    if job.expires_at is not None and job.attempts == 0:
        if job.expires_at <= now:
            late = relative(job.expires_at, now)
            return "expired", f"never starts: it expired {late}, and will be cancelled"
        if job.expires_at <= starts:
            soon = relative(job.expires_at, now)
            why = "it is due later" if pause is None else _paused(pause, now)
            return "expired", f"never starts: it expires {soon}, and {why}"
    if pause is not None and starts > max(now, job.run_at):
        return "paused", f"waits: {_paused(pause, now)}"
    if job.run_at > now:
        return "scheduled", f"is due {relative(job.run_at, now)}{_so_far(job)}"
    return None


def _lasting(job: Job, seen: Overview) -> Pause | None:
    """Give the pause that keeps a job longest, of its queue and of its task."""
    its = [p for p in seen.pauses if job.queue == p.queue or job.task == p.task]
    return max(its, key=lambda pause: pause.until or FOR_GOOD, default=None)


def _due(about: Circumstances) -> tuple[Reason, str]:
    job, seen, place = about.job, about.seen, about.place
    workers = _workers(job, seen)
    due = f"has been due for {span((seen.now - job.run_at).total_seconds())}"
    if not workers:
        return "unserved", f"{due}, and {_unserved(job, seen)}"
    if place is None:
        return "due", f"{due}, and changes all the while: ask again"
    if place.is_suspect:
        return "suspect", (
            f"{due}, and is suspect, since its worker was lost: it runs alone next, and"
            f" waits until a worker holds nothing else{_behind(place)}"
        )
    return _waits(due, place, workers, seen.now)


def _waits(
    due: str, place: Place, workers: Sequence[WorkerInfo], now: datetime
) -> tuple[Reason, str]:
    """Say what a job waits for that is no suspect, and that workers serve."""
    if (for_suspects := _waits_for_suspects(workers)) is not None:
        reason, said = for_suspects
        return reason, f"{due}{_behind(place) or ', and is the next'}, but {said}"
    if place.ahead:
        speed = f"of which {place.rate:.3g} a second ended in the last minute"
        return "behind", f"{due}{_behind(place)} of its queue, {speed}"
    if all(_state(worker) == "full" for worker in workers):
        return "busy", f"{due}, and is the next, {_full(workers)}"
    last = relative(max(w.seen_at or now for w in workers), now)
    return "due", (
        f"{due} and the next, and a worker has room for it, last seen {last}: where it"
        " stays so, that may be dead, or a transaction holds the job's row;"
        " `rowlock doctor` tells more"
    )


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


def _full(workers: Sequence[WorkerInfo]) -> str:
    running = sum(worker.running for worker in workers)
    room = sum(worker.concurrency for worker in workers)
    all_of = f"{len(workers)} workers" if len(workers) > 1 else "one worker"
    are = f"the {all_of} that could run it {_are(workers)} full"
    return f"but {are} ({running} of {room} run)"


def _are(workers: Sequence[WorkerInfo]) -> str:
    return "are" if len(workers) > 1 else "is"


def _behind(place: Place) -> str:
    if not place.ahead:
        return ""
    least = "at least " * (place.ahead >= AHEAD_COUNTED)
    jobs = f"{least}{count(place.ahead, 'job')}"
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
    return f"its {kind} {name!r} is paused{since}{by}{reason}, {until}"


def _unserved(job: Job, seen: Overview) -> str:
    if any(job.task in worker.tasks for worker in seen.workers):
        return (
            f"no live worker that has task {job.task!r} serves the queue {job.queue!r}"
        )
    seen_at = next((t.seen_at for t in seen.registered if t.name == job.task), None)
    last = (
        "never seen" if seen_at is None else f"last seen {relative(seen_at, seen.now)}"
    )
    return f"no live worker has task {job.task!r} ({last})"


def _so_far(job: Job) -> str:
    if not (told := so_far(job)):
        return ""
    return f", for attempt {job.attempts + 1} after {' and '.join(told)}"
