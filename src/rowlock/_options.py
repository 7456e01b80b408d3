"""The options of tasks and jobs, and what is refused of them at the door."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, TypedDict, cast, get_args

from rowlock._durations import to_delay, to_instant
from rowlock._errors import UsageError
from rowlock._job import OnConflict
from rowlock._keys import check_on_conflict
from rowlock._payload import check_text
from rowlock._retry import Backoff, BackoffLike, BackoffRule, to_backoff

# Names and keys are index keys: long ones slow every claim and, in Postgres, don't fit.
LONGEST_NAME = 200
LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100
# Of a replay, in jobs a second: one a day, and faster than any worker.
SLOWEST, FASTEST = 1e-5, 1_000_000


# What becomes at a shutdown of a handler that outlasts the wait.
OnShutdown: TypeAlias = Literal["release", "keep"]
Executor: TypeAlias = Literal["process"]
"""What `executor=` takes: nothing else is to be chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What holds for every job of a task; `timeout` is in seconds, 0 is none."""

    queue: str = "default"
    priority: int = 0
    max_attempts: int = 3
    timeout: float = 900.0
    backoff: BackoffRule
    dead_on: tuple[type[Exception], ...] = ()
    on_shutdown: OnShutdown = "release"
    executor: Executor | None = None
    max_jobs_per_child: int | None = None
    max_memory_mb: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What holds for one job; None is the task's own."""

    queue: str | None = None
    priority: int | None = None
    delay: timedelta | None = None
    run_at: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    backoff: Backoff | None = None
    idempotency_key: str | None = None
    idempotency_for: timedelta | None = None
    on_conflict: OnConflict | None = None
    connection: object | None = None


class JobOptionsDict(TypedDict, total=False):
    """
    The keywords of `Task.options` but `idempotency_key`, which changes its type.

    Nor those that are of a key: `idempotency_for` and `on_conflict`.
    """

    queue: str | None
    priority: int | None
    delay: float | timedelta | None
    run_at: datetime | None
    expires_at: datetime | None
    max_attempts: int | None
    timeout: float | timedelta | None
    backoff: BackoffLike | None
    connection: object | None


def check_name(value: object, argument: str) -> str:
    """Read the name of a task or queue, or a key."""
    return check_text(value, argument, longest=LONGEST_NAME)


def check_version(value: object) -> str | None:
    """Read the version of a user's code."""
    return None if value is None else check_name(value, "version=")


def check_names(values: object, argument: str) -> tuple[str, ...]:
    """Read the names of one or more queues."""
    # A text would be taken for the names of its letters, and none for every queue.
    if isinstance(values, str) or not isinstance(values, Iterable):
        msg = f"{argument} takes several names, as in [{values!r}], not {values!r}."
        raise UsageError(msg)
    names = tuple(check_name(value, argument) for value in values)
    if not names:
        msg = f"{argument} has no name in it: leave it out for every queue."
        raise UsageError(msg)
    return names


def check_errors(kinds: object, argument: str) -> tuple[type[Exception], ...]:
    """Read kinds of exceptions."""
    given = tuple(kinds) if isinstance(kinds, Iterable) else (kinds,)
    if isinstance(kinds, type) or not all(
        isinstance(kind, type) and issubclass(kind, Exception) for kind in given
    ):
        msg = (
            f"{argument} takes classes of exceptions, as in (KeyError,), not {kinds!r}."
        )
        raise UsageError(msg)
    return given


def check_on_shutdown(value: object, argument: str) -> OnShutdown:
    """Read what becomes at a shutdown of a handler that outlasts the wait."""
    if value not in get_args(OnShutdown):
        msg = f"{argument} is 'release' or 'keep', not {value!r}."
        raise UsageError(msg)
    return cast("OnShutdown", value)


def check_executor(
    executor: object, max_jobs_per_child: object, max_memory_mb: object
) -> dict[str, Any]:
    """Read where a task runs, and what bounds a child."""
    if executor not in (None, "process"):
        msg = (
            f"executor= is 'process', for a child process, or left out; it was"
            f" {executor!r}. A plain function runs in a thread anyhow."
        )
        raise UsageError(msg)
    bounds = {"max_jobs_per_child": max_jobs_per_child, "max_memory_mb": max_memory_mb}
    for name, value in bounds.items():
        if value is None:
            continue
        if executor is None:
            msg = (
                f"{name}= bounds a child process, and this task runs in none: add"
                " executor='process', or leave it out."
            )
            raise UsageError(msg)
        check_count(value, f"{name}=")
    return {"executor": executor, **bounds}


def check_priority(value: object, argument: str) -> int:
    """Read a priority."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not LOWEST_PRIORITY <= value <= HIGHEST_PRIORITY
    ):
        msg = (
            f"{argument} is a whole number from {LOWEST_PRIORITY} to"
            f" {HIGHEST_PRIORITY}, larger first; it was {value!r}."
        )
        raise UsageError(msg)
    return value


def check_count(value: object, argument: str) -> int:
    """Read how many of something there may be, at least one."""
    # The upper end is what fits a column; nobody means it.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        msg = f"{argument} is a whole number of 1 or more; it was {value!r}."
        raise UsageError(msg)
    return value


def check_lease(value: float | timedelta, argument: str) -> timedelta:
    """Read a lease."""
    lease = to_delay(value, argument)
    # Below that a garbage collection or a slow disk looks like a death.
    if lease < timedelta(seconds=1):
        msg = f"{argument} is at least 1 s; it was {lease.total_seconds():g} s."
        raise UsageError(msg)
    return lease


def check_interval(value: float | timedelta, argument: str) -> timedelta:
    """Read how often something is done."""
    interval = to_delay(value, argument)
    # More often than that is a busy loop.
    if interval < timedelta(seconds=0.1):
        msg = f"{argument} is at least 0.1 s; it was {interval.total_seconds():g} s."
        raise UsageError(msg)
    return interval


def check_timeout(value: float | timedelta, argument: str) -> float:
    """Read a timeout in seconds; 0 is none."""
    return to_delay(value, argument).total_seconds()


def check_turn(value: float | timedelta, argument: str) -> timedelta:
    """Read how long a turn is that only one worker has."""
    turn = to_delay(value, argument)
    # Each is a write.
    if turn < timedelta(seconds=1):
        msg = f"{argument} is at least 1 s; it was {turn.total_seconds():g} s."
        raise UsageError(msg)
    return turn


def check_rate(value: object, argument: str) -> float:
    """Read how many there are a second."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not SLOWEST <= value <= FASTEST
    ):
        msg = (
            f"{argument} is how many a second, a number from {SLOWEST:g} to"
            f" {FASTEST:,}; it was {value!r}."
        )
        raise UsageError(msg)
    return float(value)


def check_probe(probe: object) -> Callable[[], object]:
    """Read a function that is called without arguments."""
    if not callable(probe):
        msg = (
            f"probe= takes a function that is called without arguments, not {probe!r}."
        )
        raise UsageError(msg)
    try:
        inspect.signature(probe).bind()
    except TypeError as error:
        msg = f"probe= is called without arguments, and this one is {error}."
        raise UsageError(msg) from None
    except ValueError:  # a function in C that doesn't tell what it takes
        pass
    return probe


_readers: dict[str, Callable[..., object]] = {
    "queue": check_name,
    "priority": check_priority,
    "delay": to_delay,
    "run_at": to_instant,
    "expires_at": to_instant,
    "max_attempts": check_count,
    "timeout": check_timeout,
    "backoff": to_backoff,
    "idempotency_key": check_name,
    "idempotency_for": to_delay,
    "on_conflict": check_on_conflict,
    "connection": lambda connection, _: connection,
}


def read(options: Mapping[str, object]) -> dict[str, Any]:
    """Read the keywords of `Task.options`, as `JobOptions` has them."""
    unknown = options.keys() - _readers.keys()
    if unknown:
        known = ", ".join(_readers)
        msg = f"There is no option {min(unknown)!r}; there are {known}."
        raise UsageError(msg)
    return {
        name: _readers[name](value, f"options({name}=)")
        for name, value in options.items()
    }
