"""Telling what became of attempts, and of a worker that broke down."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from rowlock._events import Event, worker_logger
from rowlock._events.attempts import (
    AttemptFailed,
    AttemptRaisedLate,
    AttemptReleased,
    AttemptSnoozed,
    AttemptSucceeded,
    ResultDropped,
)
from rowlock._events.worker import (
    ClaimRecovered,
    JobCancelled,
    JobDeadLettered,
    OutcomeDropped,
)
from rowlock._extensions import enqueued
from rowlock._job import Claim, Outcome, Status
from rowlock._outcome import in_words

if TYPE_CHECKING:
    import asyncio

    from rowlock._store import Settled
    from rowlock._worker.runs import Run


class _Of(TypedDict):
    job_id: int
    task: str
    queue: str


class _OfAttempt(_Of):
    attempt: int


def of_attempt(claim: Claim) -> _OfAttempt:
    """Give what every event of an attempt names."""
    return {**_of(claim), "attempt": claim.attempts}


def told(run: Run, outcome: Outcome, settled: Settled) -> list[Event]:
    """Say what an attempt came to, and which jobs came of it."""
    jobs = enqueued(outcome.spawned, settled.spawned)
    return [*came_to(run, outcome, settled), *jobs]


def came_to(run: Run, outcome: Outcome, settled: Settled) -> list[Event]:
    """Say what an attempt came to."""
    claim = run.claim
    if settled.status is Status.SUCCEEDED:
        ended = AttemptSucceeded(**of_attempt(claim), ran_s=run.ran_s)
        if "result_error" in (outcome.meta or ()):
            return [ended, ResultDropped(**of_attempt(claim))]
        return [ended]
    if settled.status is Status.CANCELLED:
        return [JobCancelled(**_of(claim))]
    if not outcome.failed:
        return [
            AttemptReleased(**of_attempt(claim), reason="shutdown")
            if run.reason == "shutdown"
            else AttemptSnoozed(**of_attempt(claim), run_at=settled.run_at)
        ]
    failed = AttemptFailed(
        **of_attempt(claim),
        ran_s=run.ran_s,
        failures=claim.failures + 1,
        error_type=error_type(outcome),
        error=error_line(outcome),
        retry_at=settled.run_at,
    )
    return [failed, *dead_letter(claim, outcome, settled)]


def raised_late(run: Run, outcome: Outcome) -> list[Event]:
    """Say that a handler failed after its success was committed, if it did."""
    if outcome.error is None:
        return []
    trace = outcome.error.get("traceback")
    return [
        AttemptRaisedLate(
            **of_attempt(run.claim),
            error_type=error_type(outcome),
            error=error_line(outcome),
            traceback=None if trace is None else str(trace),
        )
    ]


def ended_unstarted(claim: Claim) -> Event:
    """Say that a job ended as its claim went back, as its cancel had been asked."""
    return JobCancelled(**_of(claim))


def dropped(claim: Claim, reason: str) -> Event:
    """Say that an outcome couldn't be written, and why."""
    return OutcomeDropped(**of_attempt(claim), claim=claim.key.claim, reason=reason)


def recovered(claim: Claim, outcome: Outcome, settled: Settled) -> list[Event]:
    """Say that a lost worker's claim was taken back."""
    event = ClaimRecovered(
        **of_attempt(claim),
        claim=claim.key.claim,
        lost_worker=claim.worker,
        losses=claim.losses + outcome.lost,
    )
    jobs = enqueued(outcome.spawned, settled.spawned)
    # Whose cancel was asked before its worker was lost.
    if settled.status is Status.CANCELLED:
        return [event, JobCancelled(**_of(claim)), *jobs]
    return [event, *dead_letter(claim, outcome, settled), *jobs]


def dead_letter(claim: Claim, outcome: Outcome, settled: Settled) -> list[Event]:
    """Say that a job gave up, if it did."""
    if settled.status is not Status.FAILED:
        return []
    return [
        JobDeadLettered(
            **_of(claim),
            failures=claim.failures + outcome.failed,
            losses=claim.losses + outcome.lost,
            error_type=error_type(outcome),
            error=error_line(outcome),
        )
    ]


def error_type(outcome: Outcome) -> str:
    """Name the kind of an outcome's error."""
    return str((outcome.error or {}).get("type") or "Error")


def error_line(outcome: Outcome) -> str:
    """Say an outcome's error on one line."""
    return in_words(outcome.error or {}).splitlines()[0]


def _of(claim: Claim) -> _Of:
    return {"job_id": claim.job_id, "task": claim.task, "queue": claim.queue}


def tell_breakdown(worker: str, running: asyncio.Task[int]) -> None:
    """Log the error that a worker has ended with, where it has."""
    if not running.cancelled() and (error := running.exception()) is not None:
        worker_logger.critical(
            "The worker %s has broken down, and runs no more jobs.",
            worker,
            exc_info=error,
        )
