"""
What a handler raises to steer its job.

Signal
├── Retry                    failed: try again after a delay of its own
├── Snooze                   not now: try again later, no failure
└── Unrecoverable            no attempt can succeed: dead letter at once

Signals are no errors. They derive from `Exception`, not `BaseException`: task
groups and error trackers take a `BaseException` for the end of the process. So a
bare `except Exception` around one swallows it.
"""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from datetime import timedelta
from typing import NamedTuple

from rowlock._durations import to_delay
from rowlock._errors import UsageError


class Made(NamedTuple):
    """A signal that was made, in words; not the signal, which would hold its frames."""

    serial: int
    words: str


_serials = itertools.count(1)
# Where the attempt of this context keeps the signals it makes.
_made: ContextVar[list[Made]] = ContextVar("rowlock.signals")


class Signal(Exception):
    """Root of what a handler raises to steer its job."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        # One that a handler makes has to end it: see `execute.swallowed`. Not its id,
        # which the next exception may have.
        self.serial: int = next(_serials)
        if (made := _made.get(None)) is not None:
            made.append(Made(self.serial, f"{type(self).__name__}: {message}"))


def watch(made: list[Made]) -> None:
    """Keep the signals that the calling context makes from now on in `made`."""
    _made.set(made)


class Retry(Signal):
    """
    This attempt failed; the next one comes after `delay` instead of the backoff.

    It counts as a failure: past `max_attempts` the job is a dead letter.
    `delay` is in seconds or a `timedelta`, from the moment of the failure; 0 is
    at once, None the task's own backoff.

        >>> raise Retry(delay=60)
        Traceback (most recent call last):
        ...
        rowlock.Retry: try again in 60 s
    """

    def __init__(
        self, reason: str = "", *, delay: float | timedelta | None = None
    ) -> None:
        # Retry(60) reads like Snooze(60), and as a reason 60 would delay nothing.
        if not isinstance(reason, str):
            msg = f"Retry() takes a reason and delay=: write Retry(delay={reason!r})."
            raise UsageError(msg)
        self.delay: timedelta | None = (
            None if delay is None else to_delay(delay, "Retry(delay=)")
        )
        self.reason = reason
        when = "" if self.delay is None else f" in {self.delay.total_seconds():g} s"
        super().__init__(reason or f"try again{when}")


class Snooze(Signal):
    """
    Not now: run this job again after `delay`, with no failure counted.

    `delay` is in seconds or a `timedelta`, from the store's now.

        >>> raise Snooze(300)
        Traceback (most recent call last):
        ...
        rowlock.Snooze: snoozed for 300 s
    """

    def __init__(self, delay: float | timedelta) -> None:
        self.delay: timedelta = to_delay(delay, "Snooze(delay)")
        super().__init__(f"snoozed for {self.delay.total_seconds():g} s")


class Unrecoverable(Signal):
    """
    No attempt can succeed: make the job a dead letter at once.

    The reason stands in the job's `last_error`, so give one.

        >>> raise Unrecoverable("no such order")
        Traceback (most recent call last):
        ...
        rowlock.Unrecoverable: no such order
    """

    # Raised bare it would be a TypeError, and the job tried again.
    def __init__(self, reason: str = "no attempt can succeed") -> None:
        super().__init__(reason)
        self.reason = reason
