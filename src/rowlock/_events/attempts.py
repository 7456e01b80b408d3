"""What happens to attempts, as events."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime

from rowlock._events import JobEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(JobEvent):
    """Something happened to one attempt."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(AttemptEvent):
    """A handler starts; `waited_s` is since the job was due."""

    name = "attempt.started"
    level = logging.DEBUG

    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSucceeded(AttemptEvent):
    """A handler returned and its outcome is written."""

    name = "attempt.succeeded"

    ran_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(AttemptEvent):
    """
    A handler raised or timed out; `retry_at` is None for a dead letter.

    `error` is its type and message on one line, of at most 2 KiB.
    """

    name = "attempt.failed"
    level = logging.WARNING

    ran_s: float
    failures: int
    error_type: str
    error: str
    retry_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRaisedLate(AttemptEvent):
    """
    A handler raised or timed out after it had committed its success: that stands.

    `error` is its type and message on one line, of at most 2 KiB. `traceback` is as a
    failed attempt's, its last 8 KiB, and is in the log, as no job's story has it.
    """

    name = "attempt.raised_late"
    level = logging.WARNING

    error_type: str
    error: str
    traceback: str | None = field(metadata={"logged": False})


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSnoozed(AttemptEvent):
    """A handler asked for later."""

    name = "attempt.snoozed"

    run_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReleased(AttemptEvent):
    """A claim was given back, without a failure."""

    name = "attempt.released"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStuck(AttemptEvent):
    """A handler can't be stopped: it runs on, and nobody records its end."""

    name = "attempt.stuck"
    level = logging.ERROR

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptUncommitted(AttemptEvent):
    """
    A handler has ended, and the transaction that has its job is still open.

    Told once an attempt, 5 s after its end, when a commit was forgotten rather than is
    about to come. `reason` says what is the matter and what to do, `open_s` for how
    long it has been.
    """

    name = "attempt.uncommitted"
    level = logging.WARNING

    open_s: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAbandoned(AttemptEvent):
    """
    A worker ended while this handler ran: its claim is left to its lease.

    It is no loss where the task allows more than one attempt. `reason` is what the
    handler was told, or `keep` where its task asked that it isn't (`on_shutdown`).
    """

    name = "attempt.abandoned"
    level = logging.WARNING

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDropped(AttemptEvent):
    """
    A handler's result can't be stored: the job succeeded, its `result` is null.

    The job's `meta.result_error` says why; not this, as it may name keys of the result.
    """

    name = "result.dropped"
    level = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSwallowed(AttemptEvent):
    """
    A handler made a `Retry`, `Snooze` or `Unrecoverable`, and ended otherwise.

    An `except Exception` around the `raise` has swallowed it, or it was never raised.
    """

    name = "signal.swallowed"
    level = logging.WARNING

    signal: str
