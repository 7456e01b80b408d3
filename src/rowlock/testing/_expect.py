"""What was enqueued, against what a test expects."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from rowlock._durations import iso, to_delay, to_instant
from rowlock._errors import PayloadError, UsageError
from rowlock._filter import Filter
from rowlock._job import Job, Status, StatusLike, check_status
from rowlock._task import KeyedTask, check_task
from rowlock.testing._dropped import Owed

if TYPE_CHECKING:
    from rowlock._app import App

MOST_SHOWN = 10
_PAGE = 500
# Between two looks with `within=`, for which another process or loop may enqueue.
_LOOK_S = 0.02


class Expected(TypedDict, total=False):
    """What may be said of a job besides its task; what isn't said doesn't count."""

    args: Mapping[str, object]
    queue: str
    status: StatusLike
    priority: int
    delay: float | timedelta
    run_at: datetime
    idempotency_key: str


def assert_enqueued(
    app: App,
    task: str | KeyedTask[..., Any],
    *,
    count: int | None = None,
    within: float | timedelta = 0,
    **expected: Unpack[Expected],
) -> Coroutine[Any, Any, Sequence[Job]]:
    """
    See that a job was enqueued, whatever became of it; returns those that fit.

    `args` is a subset of its arguments, compared as the handler would get them; of a
    mapping in it a subset counts, too. `delay` is how long after its enqueueing it is
    due. At least one job has to fit, or exactly `count`; oldest first. `within` waits
    so long for what others enqueue, in seconds or as a `timedelta`. Await it: a call
    that is dropped looks at nothing, and fails the test at its end.

    Raises:
        AssertionError: it says what was enqueued instead, and what is nearest.
        UsageError: no loop runs here, so that nobody would await it.

        >>> import asyncio
        >>> from rowlock import App
        >>> app = App("sqlite://")
        >>> @app.task
        ... def greet(name: str) -> None: ...
        >>> async def test() -> None:
        ...     await greet.enqueue("Ada")
        ...     await assert_enqueued(app, greet, args={"name": "Ada"}, count=1)
        >>> asyncio.run(test())
    """
    __tracebackhide__ = True
    _refuse_off_loop("assert_enqueued")
    call = _found(_Expectation(app, task, expected), _check_count(count), within)
    return Owed(call, "assert_enqueued")


def assert_enqueued_sync(
    app: App,
    task: str | KeyedTask[..., Any],
    *,
    count: int | None = None,
    within: float | timedelta = 0,
    **expected: Unpack[Expected],
) -> Sequence[Job]:
    """
    Do what `assert_enqueued` does, from synchronous code.

        >>> from rowlock import App
        >>> app = App("sqlite://")
        >>> @app.task
        ... def greet(name: str) -> None: ...
        >>> assert_enqueued_sync(app, greet)
        Traceback (most recent call last):
        ...
        AssertionError: No job of 'greet' was enqueued. Nothing was enqueued at all.
    """
    __tracebackhide__ = True
    call = _found(_Expectation(app, task, expected), _check_count(count), within)
    return app._portal.run(call, "assert_enqueued")


def refute_enqueued(
    app: App,
    task: str | KeyedTask[..., Any],
    *,
    within: float | timedelta = 0,
    **expected: Unpack[Expected],
) -> Coroutine[Any, Any, None]:
    """
    See that no such job was enqueued.

    What may be said of it is as in `assert_enqueued`; `within` waits so long that one
    might still come.

    Raises:
        AssertionError: one was; it says which.
        UsageError: no loop runs here, so that nobody would await it.

        >>> import asyncio
        >>> from rowlock import App
        >>> async def test() -> None:
        ...     await refute_enqueued(App("sqlite://"), "greet", args={"name": "Ada"})
        >>> asyncio.run(test())
    """
    __tracebackhide__ = True
    _refuse_off_loop("refute_enqueued")
    call = _not_found(_Expectation(app, task, expected), within)
    return Owed(call, "refute_enqueued")


def refute_enqueued_sync(
    app: App,
    task: str | KeyedTask[..., Any],
    *,
    within: float | timedelta = 0,
    **expected: Unpack[Expected],
) -> None:
    """
    Do what `refute_enqueued` does, from synchronous code.

        >>> from rowlock import App
        >>> refute_enqueued_sync(App("sqlite://"), "greet")
    """
    __tracebackhide__ = True
    call = _not_found(_Expectation(app, task, expected), within)
    app._portal.run(call, "refute_enqueued")


class _Expectation:
    """What a test expects of a job, and how one differs from it."""

    def __init__(
        self, app: App, task: str | KeyedTask[..., Any], expected: Expected
    ) -> None:
        self.app = app
        self._task = check_task(task)
        if unknown := expected.keys() - Expected.__annotations__.keys():
            known = ", ".join(Expected.__annotations__)
            msg = f"Nothing is known of {min(unknown)!r}; there are {known}, and count."
            raise UsageError(msg)
        self._expected: dict[str, Any] = dict(expected)
        if not isinstance(expected.get("args", {}), Mapping):
            given = expected["args"]
            msg = f"args= takes arguments by name, as in {{'n': 1}}, not {given!r}."
            raise UsageError(msg)
        if "status" in expected:
            self._expected["status"] = check_status(expected["status"])
        if "delay" in expected:
            self._expected["delay"] = to_delay(expected["delay"], "delay=")
        if "run_at" in expected:
            self._expected["run_at"] = to_instant(expected["run_at"], "run_at=")

    def differences(self, job: Job) -> list[str]:
        """Say in what a job differs; empty where it fits."""
        if job.task != self._task:
            return [f"its task is {job.task!r}, not {self._task!r}"]
        found: list[str] = []
        for name, value in self._expected.items():
            if name == "args":
                found += _misfits(value, _arguments(self.app, job), job.payload)
            elif (actual := _actual(job, name)) != value:
                found.append(f"its {name} is {_shown(actual)}, not {_shown(value)}")
        return found

    def missing(
        self, jobs: Sequence[Job], fitting: Sequence[Job], count: int | None
    ) -> str:
        """Say that none was enqueued, or another number."""
        what = f"of {self._task!r}{self._conditions()}"
        if count is None or not fitting:
            lines = [f"No job {what} was enqueued."]
        else:
            lines = [f"{_jobs(len(fitting))} {what} were enqueued, not {count}."]
        if not jobs:
            return f"{lines[0]} Nothing was enqueued at all."
        lines += ["Enqueued were:", *_listed(jobs)]
        others = [job for job in jobs if job not in fitting]
        if not fitting and others:
            # Of its own task first: a job of another is no near miss.
            nearest = min(
                others,
                key=lambda job: (job.task != self._task, len(self.differences(job))),
            )
            told = "; ".join(self.differences(nearest))
            lines.append(f"The nearest is job {nearest.id}: {told}.")
        if hint := self._hint():
            lines.append(hint)
        return "\n".join(lines)

    def unwanted(self, found: Sequence[Job]) -> str:
        """Say which was enqueued though it should not have been."""
        were = "was" if len(found) == 1 else "were"
        what = f"{self._task!r}{self._conditions()}"
        head = f"{_jobs(len(found))} of {what} {were} enqueued:"
        return "\n".join([head, *_listed(found)])

    def _conditions(self) -> str:
        told = [f"{name} {_shown(value)}" for name, value in self._expected.items()]
        return f" with {', '.join(told)}" if told else ""

    def _hint(self) -> str:
        if self.app.tasks and self._task not in self.app.tasks:
            return f"This app has no task {self._task!r}."
        return ""


async def _found(
    expectation: _Expectation, count: int | None, within: float | timedelta
) -> Sequence[Job]:
    __tracebackhide__ = True
    until = time.monotonic() + to_delay(within, "within=").total_seconds()
    while True:
        jobs = await _all_jobs(expectation.app)
        fitting = [job for job in jobs if not expectation.differences(job)]
        if (len(fitting) == count) if count is not None else fitting:
            return fitting
        if time.monotonic() >= until:
            raise AssertionError(expectation.missing(jobs, fitting, count))
        await asyncio.sleep(_LOOK_S)


async def _not_found(expectation: _Expectation, within: float | timedelta) -> None:
    __tracebackhide__ = True
    until = time.monotonic() + to_delay(within, "within=").total_seconds()
    while True:
        jobs = await _all_jobs(expectation.app)
        if found := [job for job in jobs if not expectation.differences(job)]:
            raise AssertionError(expectation.unwanted(found))
        if time.monotonic() >= until:
            return
        await asyncio.sleep(_LOOK_S)


async def _all_jobs(app: App) -> list[Job]:
    jobs: list[Job] = []
    after: int | None = None
    while True:
        page = await app.list(Filter(), after=after, limit=_PAGE)
        jobs += page.jobs
        if (after := page.after) is None:
            return jobs[::-1]


def _arguments(app: App, job: Job) -> Mapping[str, object]:
    """Give a job's arguments as its handler gets them; JSON where nobody knows how."""
    task = app.tasks.get(job.task)
    if task is None:
        return job.payload
    try:
        return task.codec.decode(json.dumps(job.payload))
    except PayloadError:
        return job.payload


def _misfits(
    expected: Mapping[str, object],
    actual: Mapping[str, object],
    stored: Mapping[str, object],
) -> list[str]:
    return [
        f"its {name} is {_shown(actual[name])}, not {_shown(value)}"
        if name in actual
        else f"it has no {name}"
        for name, value in expected.items()
        # A test that knows the JSON may say that.
        if not (_fits(value, actual, name) or _fits(value, stored, name))
    ]


def _fits(expected: object, of: Mapping[str, object], name: str) -> bool:
    if name not in of:
        return False
    actual = of[name]
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return all(_fits(value, actual, key) for key, value in expected.items())
    return bool(actual == expected)


def _actual(job: Job, name: str) -> object:
    return job.run_at - job.created_at if name == "delay" else getattr(job, name)


def _listed(jobs: Sequence[Job]) -> list[str]:
    lines = [
        f"  {job.id}  {job.task}  {_shown(dict(job.payload))}  queue {job.queue},"
        f" {job.status}, due {iso(job.run_at)}"
        for job in jobs[-MOST_SHOWN:]
    ]
    if (more := len(jobs) - MOST_SHOWN) > 0:
        lines.insert(0, f"  ... {more} more before")
    return lines


def _shown(value: object) -> str:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g} s"
    if isinstance(value, datetime):
        return iso(value)
    return repr(str(value) if isinstance(value, Status) else value)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _check_count(count: int | None) -> int | None:
    if count is not None and count < 0:
        msg = f"count= is a whole number of 0 or more, not {count!r}."
        raise UsageError(msg)
    return count


def _refuse_off_loop(name: str) -> None:
    # A plain test that calls it would pass, whatever was enqueued.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        msg = (
            f"{name}(...) looks at nothing until it is awaited, and no event loop runs"
            f" here: write {name}_sync(...) in a plain test."
        )
        raise UsageError(msg) from None
