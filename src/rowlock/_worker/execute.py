"""From what a handler did to the outcome of its attempt; no store, no loop."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowlock import _attempt, _outcome
from rowlock._chance import CHANCE
from rowlock._codec import encode_json
from rowlock._durations import LONGEST, to_delay
from rowlock._errors import PayloadError, RowlockError, UsageError
from rowlock._events import logger
from rowlock._job import JSON, Claim, ClaimKey, NewJob, Outcome
from rowlock._payload import storable
from rowlock._retry import DEFAULT_BACKOFF, Backoff, BackoffRule, after_failure
from rowlock._signals import Retry, Snooze, Unrecoverable

if TYPE_CHECKING:
    from datetime import timedelta

    from rowlock._task import Task
    from rowlock._worker.runs import Run

HERE = Path(__file__).parent
LONGEST_TRACEBACK = 8 * 1024
LONGEST_MESSAGE = 2 * 1024
_UNBEGUN = (Coroutine, Generator, AsyncGenerator)
MOST_MEMBERS = 10


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
    # Nobody may have told it, where the loop was blocked.
    if run.reason == "timeout" or run.is_overdue():
        return timed_out(run)
    run.swallowed = swallowed(run, None)
    if run.reason == "cancel":
        return _outcome.cancelled(run.key)
    jobs = _attempt.spawned(run.attempt)
    try:
        return succeeded(run.key, result, jobs, max_payload=max_payload)
    except BaseException as error:  # noqa: BLE001 - a result's own code may raise it
        meta = {"result_error": _message_of(error)}
        return _outcome.succeeded(run.key, meta=meta, spawned=jobs)


def succeeded(
    key: ClaimKey, result: object, jobs: tuple[NewJob, ...], *, max_payload: int
) -> Outcome:
    """
    Make the outcome of a success.

    Raises:
        PayloadError: the result can't be stored.
    """
    stored = None if result is None else encode_json(result, limit=max_payload)
    return _outcome.succeeded(key, stored, spawned=jobs)


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
    run.swallowed = swallowed(run, error)
    return _gravest(run, error)


def _gravest(run: Run, error: BaseException) -> Outcome:
    """
    Judge what a handler raised: one error, or those of a task group.

    Of a group one may be a signal and another a mistake. The gravest counts: what no
    retry can help, then failures, then snoozes; of their delays the longest.
    """
    errors, record = tuple(leaves(error)), described(error)
    dead: tuple[type[Exception], ...] = (Unrecoverable, *run.task.defaults.dead_on)
    if any(isinstance(each, dead) for each in (error, *errors)):
        return _outcome.failed(run.claim, record, backoff_of(run), dead=True)
    snoozes = [to_delay(e.delay, "Snooze") for e in errors if isinstance(e, Snooze)]
    if len(snoozes) == len(errors):
        return _outcome.snoozed(run.key, max(snoozes))
    asked = [
        to_delay(e.delay, "Retry(delay=)")
        for e in errors
        if isinstance(e, Retry) and e.delay is not None
    ]
    return _outcome.failed(run.claim, record, max(asked) if asked else backoff_of(run))


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Give what a handler raised; of a group, its members, however deep."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from leaves(inner)


def described(error: BaseException) -> Mapping[str, JSON]:
    """Describe what a handler raised; a group that holds one error only, as that."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    record = describe(error)
    if not isinstance(error, BaseExceptionGroup):
        return record
    # The group's own text only counts them.
    members = islice(leaves(error), MOST_MEMBERS)
    told = "; ".join(_outcome.in_words(_named(each)) for each in members)
    return {**record, "message": f"{record['message']}: {told}"[:LONGEST_MESSAGE]}


def swallowed(run: Run, error: BaseException | None) -> tuple[str, ...]:
    """Tell which signals the handler has made that aren't in what it raised."""
    if not run.made:
        return ()
    # A user's own kind of signal may not have called ours into being.
    raised = {getattr(each, "serial", None) for each in _tree(error)}
    return tuple(
        made.words[:LONGEST_MESSAGE] for made in run.made if made.serial not in raised
    )


def _tree(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error with those it holds, or was raised from, or beside."""
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions


def timed_out(run: Run, *, delay: timedelta | None = None) -> Outcome:
    """Judge an attempt that ran longer than its timeout; `delay` is for the backoff."""
    timeout = timeout_of(run.claim, run.task)
    text = f"the attempt ran longer than its timeout of {timeout:g} s"
    return ended_by(run, "TimeoutError", text, delay=delay)


def ended_by(
    run: Run, kind: str, message: str, *, delay: timedelta | None = None
) -> Outcome:
    """Judge an attempt that was ended from outside, by what a record names `kind`."""
    record: dict[str, JSON] = {"type": kind, "message": message, "traceback": None}
    delay = backoff_of(run) if delay is None else delay
    return _outcome.failed(run.claim, record, delay)


def backoff_of(run: Run) -> timedelta:
    """
    Tell the delay before the next attempt: the job's own backoff, else its task's.

    A rule that can't be used doesn't lose the outcome: it is logged, and the default
    counts.
    """
    rule: BackoffRule = run.task.defaults.backoff
    failures, spread = run.claim.failures + 1, CHANCE.random()
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
    return {**_named(error), "traceback": _traceback_of(error)}


def _named(error: BaseException) -> dict[str, JSON]:
    kind = _public(type(error))
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "rowlock"):
        name = f"{kind.__module__}.{name}"
    return {"type": storable(name)[:LONGEST_MESSAGE], "message": _message_of(error)}


def _public(kind: type[BaseException]) -> type[BaseException]:
    """Give the class by which users know it: what a store tells apart is its own."""
    if issubclass(kind, RowlockError) and kind.__module__.startswith("rowlock."):
        return next(base for base in kind.__mro__ if base.__module__ == "rowlock")
    return kind


def _message_of(error: BaseException) -> str:
    try:
        message = str(error)
    except BaseException as broken:  # noqa: BLE001 - __str__ is the user's
        message = f"<its text can't be had: {type(broken).__name__}>"
    return storable(message[:LONGEST_MESSAGE])


def _traceback_of(error: BaseException) -> str | None:
    try:
        # The first frames are the worker's own, which tell nobody anything.
        inner = error.__traceback__
        while inner and Path(inner.tb_frame.f_code.co_filename).parent == HERE:
            inner = inner.tb_next
        told = "".join(traceback.format_exception(type(error), error, inner))
    except BaseException:  # noqa: BLE001 - a broken __repr__ or __str__ inside
        return None
    # Cut by bytes, from the front: the last lines say what happened.
    told = storable(told[-LONGEST_TRACEBACK:])
    cut = told.encode()[-LONGEST_TRACEBACK:]
    return cut.decode(errors="ignore")
