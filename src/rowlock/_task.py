"""
Tasks: registered functions with a name, options, and ways to make a job of a call.

A task stays callable as the function it was. `options` returns a copy, so what is
said per job never collides with the function's own parameters.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from rowlock._awaited import awaited
from rowlock._errors import DuplicateTask, InvalidTask, UsageError
from rowlock._job import NewJob, OnConflict
from rowlock._options import JobOptions, JobOptionsDict, TaskOptions, check_name, read

if TYPE_CHECKING:
    from rowlock._codec import Codec

P = ParamSpec("P")
R = TypeVar("R")


class Door(NamedTuple):
    """What a task needs of its app: two ways to hand jobs over, and a bound."""

    enqueue: Callable[
        [Sequence[NewJob], object | None], Coroutine[Any, Any, list[int | None]]
    ]
    enqueue_sync: Callable[[Sequence[NewJob], object | None, str], list[int | None]]
    max_payload: int
    arounds: Callable[
        [], Sequence[Callable[[Any], AbstractAsyncContextManager[object]]]
    ]


class KeyedTask(Generic[P, R]):
    """
    A task whose jobs may be duplicates; `options(idempotency_key=...)` makes one.

    So what it enqueues has an id or None. A `Task` is one too: it goes wherever a
    `KeyedTask` is taken.

        >>> from rowlock import App
        >>> app = App("sqlite://")
        >>> @app.task
        ... def greet(name: str) -> None: ...
        >>> once = greet.options(idempotency_key="greet:Ada")
        >>> once.enqueue_sync("Ada"), once.enqueue_sync("Ada")
        (1, None)
    """

    __wrapped__: Callable[P, R]
    __name__: str
    __qualname__: str

    def __init__(
        self, function: Callable[P, R], door: Door, name: str, options: TaskOptions
    ) -> None:
        from rowlock._codec import Codec

        functools.update_wrapper(self, function)
        self.name: str = check_name(name, "name=")
        self.function = function
        self.is_async: bool = inspect.iscoroutinefunction(function)
        self.codec: Codec = Codec(function, name=self.name)
        self.defaults = options
        self._door = door
        self._job = JobOptions()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself; no job is made."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name!r}>"

    @overload
    def options(self, **options: Unpack[JobOptionsDict]) -> Self: ...

    @overload
    def options(
        self,
        *,
        idempotency_key: str | None,
        idempotency_for: float | timedelta | None = None,
        on_conflict: OnConflict | None = None,
        **options: Unpack[JobOptionsDict],
    ) -> KeyedTask[P, R]: ...

    def options(
        self,
        *,
        idempotency_key: str | None = None,
        idempotency_for: float | timedelta | None = None,
        on_conflict: OnConflict | None = None,
        **options: Unpack[JobOptionsDict],
    ) -> KeyedTask[P, R]:
        """
        Return a copy of this task whose jobs have these options; None changes nothing.

        `delay` and `timeout` are seconds or a `timedelta` (`timeout=0` is none);
        `run_at` and `expires_at` are aware datetimes, by the store's clock, as is the
        now that `delay` counts from; a larger `priority` goes first, -100 to 100;
        `backoff` is a `Backoff`, a delay, or a list of delays. While a job
        with an `idempotency_key` is unfinished, and for `idempotency_for` after its
        end, another of the task isn't enqueued. `on_conflict` is what then becomes of
        the call: "skip" (None is returned, nothing else), "raise" (a `KeyConflict`
        where the payload is another), or "replace" (a job that is still pending gets
        this payload, `run_at` or `delay`, and `expires_at`; None is returned).
        `connection` is your own, of a driver, SQLAlchemy or Django, whose transaction
        the job joins.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> greet.options(priority=5).job(name="Ada").priority
            5
        """
        said = {
            **options,
            "idempotency_key": idempotency_key,
            "idempotency_for": idempotency_for,
            "on_conflict": on_conflict,
        }
        given = {name: value for name, value in said.items() if value is not None}
        job = replace(self._job, **read(given))
        if job.delay is not None and job.run_at is not None:
            msg = f"Say either delay= or run_at= for {self.name!r}, not both."
            raise UsageError(msg)
        if job.idempotency_key is None and (job.idempotency_for or job.on_conflict):
            msg = (
                f"idempotency_for= and on_conflict= for {self.name!r} are of an"
                " idempotency_key: say one."
            )
            raise UsageError(msg)
        kind = type(self) if idempotency_key is None else KeyedTask
        task: KeyedTask[P, R] = object.__new__(kind)
        vars(task).update(vars(self), _job=job)
        return task

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """
        Make a job of this call without any effect, for `app.enqueue_many`.

        Raises:
            PayloadError: an argument can't be stored, or doesn't fit its annotation;
                the message says where.
            UsageError: the task has a `connection`, which a job can't carry: lend it
                to `app.enqueue_many`.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> greet.job(name="Ada").payload
            '{"name":"Ada"}'
        """
        if self._job.connection is not None:
            msg = (
                f"A job of {self.name!r} can't carry a connection: lend it to"
                " app.enqueue_many(jobs, connection=), or call enqueue."
            )
            raise UsageError(msg)
        return self._make(*args, **kwargs)

    def _make(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        arguments = self.codec.bind(args, kwargs)
        job, task = self._job, self.defaults
        return NewJob(
            task=self.name,
            queue=job.queue or task.queue,
            payload=self.codec.encode(arguments, limit=self._door.max_payload),
            priority=task.priority if job.priority is None else job.priority,
            delay=job.delay or timedelta(0),
            run_at=job.run_at,
            expires_at=job.expires_at,
            max_attempts=job.max_attempts or task.max_attempts,
            timeout=job.timeout,
            backoff=None if job.backoff is None else job.backoff.to_json(),
            idempotency_key=job.idempotency_key,
            idempotency_for=job.idempotency_for or None,
            on_conflict=job.on_conflict or "skip",
        )

    @awaited("{.name}")
    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> int | None:
        """
        Enqueue a job of this call; returns its id, None where it is a duplicate.

        The job that holds the key is found by `app.find`. Await it: a call that is
        dropped enqueues nothing, and logs an error.

        Raises:
            KeyConflict: with `on_conflict="raise"`, another job holds the key and has
                another payload; nothing was written.
            PayloadError: an argument can't be stored; nothing was written.
            StoreUnavailable: nothing was written; try again.
            OutcomeUnknown: perhaps it was written; try again, the key makes that safe.

            >>> import asyncio
            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> asyncio.run(greet.options(idempotency_key="Ada").enqueue(name="Ada"))
            1
        """
        return await self._enqueue(*args, **kwargs)

    async def _enqueue(self, *args: P.args, **kwargs: P.kwargs) -> int | None:
        job = self._make(*args, **kwargs)
        return (await self._door.enqueue([job], self._job.connection))[0]

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> int | None:
        """
        Do what `enqueue` does, from synchronous code.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> greet.enqueue_sync(name="Ada")
            1
        """
        job = self._make(*args, **kwargs)
        call = f"{self.name}.enqueue"
        return self._door.enqueue_sync([job], self._job.connection, call)[0]


class Task(KeyedTask[P, R]):
    """
    A registered function; make one with `@app.task`.

        >>> from rowlock import App
        >>> app = App("sqlite://")
        >>> @app.task
        ... def greet(name: str) -> None:
        ...     print("Hello", name)
        >>> greet("Ada")
        Hello Ada
    """

    # Without a key nothing is a duplicate: no index but that of keys refuses a job.

    @awaited("{.name}")
    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """
        Enqueue a job of this call; returns its id.

        Await it: a call that is dropped enqueues nothing, and logs an error.

        Raises:
            PayloadError: an argument can't be stored; nothing was written.
            StoreUnavailable: nothing was written; try again.
            OutcomeUnknown: perhaps it was written; only with an idempotency key is it
                safe to try again.

            >>> import asyncio
            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> asyncio.run(greet.enqueue(name="Ada"))
            1
        """
        return cast("int", await self._enqueue(*args, **kwargs))

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """
        Do what `enqueue` does, from synchronous code.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> greet.enqueue_sync(name="Ada")
            1
        """
        return cast("int", super().enqueue_sync(*args, **kwargs))


def check_task(task: object) -> str:
    """Read a task, or the name of one."""
    return task.name if isinstance(task, KeyedTask) else check_name(task, "task=")


def name_of(function: object) -> str:
    """Tell the name that a function gives its task."""
    name = getattr(function, "__name__", None)
    if not callable(function):
        msg = (
            f"{function!r} is no function: what @app.task takes besides is named, as in"
            " @app.task(queue='mail')."
        )
        raise InvalidTask(msg)
    if not isinstance(name, str):
        msg = f"{function!r} has no name to be a task by: say @app.task(name=...)."
        raise InvalidTask(msg)
    return name


def check_findable(task: Task[..., Any]) -> None:
    """Refuse a task that no child process could find."""
    qualname = task.function.__qualname__
    if task.defaults.executor is not None and "<" in qualname:
        msg = (
            f"The task {task.name!r} can't run in a child process, which finds it by"
            f" its module and name, and {qualname!r} is inside of a function: move it"
            " to the module's level."
        )
        raise InvalidTask(msg)


def duplicate(task: Task[..., Any], other: Task[..., Any]) -> DuplicateTask:
    """Say which two functions would be one task."""
    msg = (
        f"Two functions would be the task {task.name!r}: {_place(other)} and"
        f" {_place(task)}. Give one of them another name with @app.task(name=...)."
    )
    return DuplicateTask(task.name, msg)


def _place(task: Task[..., Any]) -> str:
    code = getattr(task.function, "__code__", None)
    line = f":{code.co_firstlineno}" if code else ""
    return f"{task.function.__module__}.{task.function.__qualname__}{line}"
