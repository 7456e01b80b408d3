"""
The ways in which a claim ends, each as an `Outcome`: the policy, in one place.

Success, failure, snooze, release, cancellation and loss are all written by the same
`finish`; what differs is decided here, and needs no code of the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from rowlock._job import JSON, Claim, ClaimKey, NewJob, Outcome, Status
from rowlock._retry import LOSS_DELAYS, MAX_LOSSES


def succeeded(
    key: ClaimKey,
    result: str | None = None,
    *,
    meta: Mapping[str, JSON] | None = None,
    spawned: tuple[NewJob, ...] = (),
) -> Outcome:
    """The handler returned; `result` is JSON text."""
    return Outcome(
        key=key, status=Status.SUCCEEDED, result=result, meta=meta, spawned=spawned
    )


def failed(
    claim: Claim, error: Mapping[str, JSON], delay: timedelta, *, dead: bool = False
) -> Outcome:
    """
    The attempt failed: back to pending after `delay`, or a dead letter.

    Dead where its failures are spent, or at once with `dead`.
    """
    if dead:
        # For the automatic replay, which can't help here.
        error = {**error, "unrecoverable": True}
    if dead or claim.failures + 1 >= claim.max_attempts:
        return Outcome(key=claim.key, status=Status.FAILED, failed=True, error=error)
    return Outcome(
        key=claim.key, status=Status.PENDING, delay=delay, failed=True, error=error
    )


def snoozed(key: ClaimKey, delay: timedelta) -> Outcome:
    """The handler asked for later; no failure."""
    return Outcome(key=key, status=Status.PENDING, delay=delay)


def released(key: ClaimKey, *, unstarted: bool) -> Outcome:
    """The worker gives it back, due at once; no failure."""
    return Outcome(key=key, status=Status.PENDING, unstarted=unstarted)


def cancelled(key: ClaimKey) -> Outcome:
    """The handler stopped because a cancel was asked."""
    return Outcome(key=key, status=Status.CANCELLED)


def lost(claim: Claim) -> Outcome:
    """
    The worker was lost, and with it the attempt.

    Dead at max_losses, where failures are spent (the loss of a claim that was alone
    is charged as one), or at the first loss where max_attempts is 1: at most once is
    kept. A claim that its worker abandoned at shutdown is no loss, with that same
    exception.
    """
    over = partial(
        Outcome,
        key=claim.key,
        leased_until=claim.leased_until,
        error=_lost_error(claim),
    )
    if claim.cancel_requested_at is not None:
        return over(status=Status.CANCELLED, lost=not claim.abandoned)
    if claim.abandoned and claim.max_attempts > 1:
        return over(status=Status.PENDING)
    losses = claim.losses + 1
    failures = claim.failures + claim.alone
    dead = (
        losses >= MAX_LOSSES
        or failures >= claim.max_attempts
        or claim.max_attempts == 1
    )
    return over(
        status=Status.FAILED if dead else Status.PENDING,
        delay=LOSS_DELAYS[min(losses, len(LOSS_DELAYS)) - 1],
        failed=claim.alone,
        lost=True,
    )


def in_words(error: Mapping[str, JSON]) -> str:
    """
    Say an error as Python does: its type, and its message where it has one.

        >>> in_words({"type": "ValueError", "message": "no such order"})
        'ValueError: no such order'
        >>> in_words({"type": "TimeoutError", "message": ""})
        'TimeoutError'
    """
    kind, message = error.get("type") or "Error", error.get("message")
    return f"{kind}: {message}" if message else str(kind)


def _lost_error(claim: Claim) -> Mapping[str, JSON]:
    how = (
        "stopped while the handler still ran"
        if claim.abandoned
        else "was lost: its process died, or it was out of reach for longer than the"
        " lease"
    )
    beside = ". It ran nothing else." if claim.alone else ""
    return {
        "type": "WorkerLost",
        "message": f"worker {claim.worker} {how}{beside}",
        "traceback": None,
    }
