"""From what a handler did to the outcome of its attempt; no store, no loop."""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any

from rowlock import _outcome
from rowlock._codec import encode_json, printable
from rowlock._durations import LONGEST, to_delay
from rowlock._errors import PayloadError, UsageError
from rowlock._events import logger
from rowlock._job import JSON, Claim, Outcome
from rowlock._retry import DEFAULT_BACKOFF, Backoff, BackoffRule, after_failure
from rowlock._signals import Retry, Snooze, Unrecoverable

if TYPE_CHECKING:
    from datetime import timedelta

    from rowlock._task import Task
    from rowlock._worker.runs import Run

LONGEST_TRACEBACK = 8 * 1024
LONGEST_MESSAGE = 2 * 1024
_UNBEGUN = (Coroutine, Generator, AsyncGenerator)


def timeout_of(claim: Claim, task: Task[..., Any]) -> float:
    """Tell this attempt's timeout in seconds, 0 for none."""
    # A row that was changed by hand may say anything.
    if claim.timeout is None or not 0 <= claim.timeout <= LONGEST.total_seconds():
        return task.defaults.timeout
    return claim.timeout


def returned(run: Run, result: object, *, max_payload: int) -> Outcome:
    """
    Judge a handler that returned.

    After its timeout it has failed, after a cancel it is cancelled and its result
    dropped. A result that can't be stored doesn't fail the job; a coroutine or a
    generator does, as then the work hasn't begun.
    """
    if result is not None and isinstance(result, _UNBEGUN):
        return raised(run, _unbegun(result))
    if run.reason == "timeout":
        return timed_out(run)
    if run.reason == "cancel":
        return _outcome.cancelled(run.key)
    if result is None:
        return _outcome.succeeded(run.key)
    try:
        stored = encode_json(result, limit=max_payload)
    except BaseException as error:  # noqa: BLE001 - a result's own code may raise it
        return _outcome.succeeded(run.key, meta={"result_error": _message_of(error)})
    return _outcome.succeeded(run.key, stored)


def _unbegun(result: object) -> TypeError:
    if isinstance(result, Coroutine | Generator):
        result.close()  # or Python complains that nobody has awaited it
    return TypeError(
        f"the handler returned a {type(result).__name__}, which nobody runs: make it"
        " `async def` and await what it calls, and so its decorators"
    )


def raised(run: Run, error: BaseException) -> Outcome:
    """
    Judge a handler that raised.

    Whatever ends a handler after its timeout is that timeout, and after the shutdown's
    cancellation no failure at all.
    """
    try:
        return _judged(run, error)
    except Exception as broken:  # noqa: BLE001 - a signal of a user's own making
        return _outcome.failed(run.claim, describe(broken), backoff_of(run))


def _judged(run: Run, error: BaseException) -> Outcome:
    if run.reason == "timeout":
        return timed_out(run)
    if run.reason == "shutdown":
        return _outcome.released(run.key, unstarted=False)
    if run.reason == "cancel" and isinstance(error, asyncio.CancelledError):
        return _outcome.cancelled(run.key)
    if isinstance(error, Snooze):
        return _outcome.snoozed(run.key, to_delay(error.delay, "Snooze(delay)"))
    record = describe(error)
    dead = isinstance(error, (Unrecoverable, *run.task.defaults.dead_on))
    if isinstance(error, Retry) and error.delay is not None:
        delay = to_delay(error.delay, "Retry(delay=)")
        return _outcome.failed(run.claim, record, delay)
    return _outcome.failed(run.claim, record, backoff_of(run), dead=dead)


def timed_out(run: Run) -> Outcome:
    """Judge an attempt that ran longer than its timeout."""
    timeout = timeout_of(run.claim, run.task)
    record: dict[str, JSON] = {
        "type": "TimeoutError",
        "message": f"the attempt ran longer than its timeout of {timeout:g} s",
        "traceback": None,
    }
    return _outcome.failed(run.claim, record, backoff_of(run))


def backoff_of(run: Run) -> timedelta:
    """
    Tell the delay before the next attempt: the job's own backoff, else its task's.

    A rule that can't be used doesn't lose the outcome: it is logged, and the default
    counts.
    """
    rule: BackoffRule = run.task.defaults.backoff
    failures, spread = run.claim.failures + 1, random.random()  # noqa: S311 - spread
    try:
        if run.claim.backoff is not None:
            rule = Backoff.from_json(run.claim.backoff)
        return after_failure(rule, failures, spread)
    except Exception as error:  # noqa: BLE001 - a user's callable may raise anything
        logger.error(
            "The backoff of task %r can't be used (%s: %s); the default counts.",
            run.claim.task,
            type(error).__name__,
            _message_of(error),
        )
        return DEFAULT_BACKOFF.delay(failures, spread)


def unstartable(run: Run, error: BaseException) -> Outcome:
    """Judge a handler that can't be started: a failure like any other."""
    # A deploy may be half done: the next attempt may meet code that its payload fits.
    if not isinstance(error, PayloadError | UsageError):
        logger.error("Job %d could not be started: %r", run.claim.job_id, error)
    return _outcome.failed(run.claim, describe(error), backoff_of(run))


def describe(error: BaseException) -> Mapping[str, JSON]:
    """
    Put an exception into words that every store takes: type, message, traceback.

    The traceback keeps its last 8 KiB. No reference to a frame stays.
    """
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "rowlock"):
        name = f"{kind.__module__}.{name}"
    return {
        "type": printable(name)[:LONGEST_MESSAGE],
        "message": _message_of(error),
        "traceback": _traceback_of(error),
    }


def _message_of(error: BaseException) -> str:
    try:
        message = str(error)
    except BaseException as broken:  # noqa: BLE001 - __str__ is the user's
        message = f"<its text can't be had: {type(broken).__name__}>"
    return printable(message[:LONGEST_MESSAGE])


def _traceback_of(error: BaseException) -> str | None:
    try:
        # The first frame is the worker's own, which tells nobody anything.
        inner = error.__traceback__ and error.__traceback__.tb_next
        told = "".join(traceback.format_exception(type(error), error, inner))
    except BaseException:  # noqa: BLE001 - a broken __repr__ or __str__ inside
        return None
    # Cut by bytes, from the front: the last lines say what happened.
    told = printable(told[-LONGEST_TRACEBACK:])
    cut = told.encode()[-LONGEST_TRACEBACK:]
    return cut.decode(errors="ignore")
