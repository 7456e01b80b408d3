"""
The app: a registry of tasks on a store.

An app connects at its first call and can be used from any thread and any loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, overload

from rowlock import stores
from rowlock._clock import Clock, SystemClock
from rowlock._codec import MAX_PAYLOAD
from rowlock._durations import to_delay
from rowlock._errors import TaskNotFound, UsageError
from rowlock._events import Event, Events, JobDuplicate, JobEnqueued
from rowlock._job import NewJob
from rowlock._operations import Operations
from rowlock._options import (
    TaskOptions,
    check_count,
    check_errors,
    check_lease,
    check_name,
    check_priority,
    check_timeout,
)
from rowlock._retry import DEFAULT_BACKOFF, BackoffLike, BackoffRule, to_backoff
from rowlock._store import Retention, Store
from rowlock._sync import Portal
from rowlock._task import Task, check_jobs, duplicate, name_of

if TYPE_CHECKING:
    from types import TracebackType

    from rowlock._worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_URL = "sqlite:///rowlock.db"
DEFAULT_LEASE = 300.0
DEFAULT_TIMEOUT = 900.0


class App(Operations):
    """
    Tasks, and the store where their jobs live.

    Without a URL it reads ROWLOCK_DATABASE_URL, then DATABASE_URL, else it is
    `sqlite:///rowlock.db`. The settings are the defaults of every task and worker;
    durations are seconds or a `timedelta`.

    Raises:
        ConfigError: the URL has a scheme that no store serves.

        >>> app = App("sqlite://")
        >>> app.url
        'sqlite:///:memory:'
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        max_attempts: int = 3,
        backoff: BackoffLike = DEFAULT_BACKOFF,
        timeout: float | timedelta = DEFAULT_TIMEOUT,
        lease: float | timedelta = DEFAULT_LEASE,
        retention: Retention | None = None,
        max_payload: int = MAX_PAYLOAD,
        clock: Clock | None = None,
    ) -> None:
        self.max_attempts = check_count(max_attempts, "max_attempts=")
        self.backoff = to_backoff(backoff, "backoff=")
        self.timeout = check_timeout(timeout, "timeout=")
        self.lease = check_lease(lease, "lease=")
        self.retention = check_retention(retention)
        self.max_payload = check_count(max_payload, "max_payload=")
        self.tasks: dict[str, Task[..., Any]] = {}
        self.events = Events()
        self.clock: Clock = clock or SystemClock()
        # An empty URL is no unset one: it would have the jobs go elsewhere unseen.
        where = default_url() if url is None else url
        self.store: Store = stores.connect(where, clock=self.clock)
        self.portal = Portal()

    def __repr__(self) -> str:
        return f"<App {self.url}>"

    @property
    def url(self) -> str:
        """Where the store is: absolute, and without a password."""
        return self.store.url

    # Registering

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        max_attempts: int | None = None,
        timeout: float | timedelta | None = None,
        backoff: BackoffLike | Callable[[int], float | timedelta] | None = None,
        dead_on: Iterable[type[Exception]] = (),
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        max_attempts: int | None = None,
        timeout: float | timedelta | None = None,
        backoff: BackoffLike | Callable[[int], float | timedelta] | None = None,
        dead_on: Iterable[type[Exception]] = (),
    ) -> Task[P, R] | Callable[[Callable[P, R]], Task[P, R]]:
        """
        Register a function, plain or async, as a task.

        Its name is the function's own unless `name` says another, so that moving code
        orphans no jobs. `dead_on` names the exceptions that no retry can help:
        a dead letter at once. What is None is the app's own.

        Raises:
            DuplicateTask: another function has that name already.
            InvalidTask: the function can't be a task; the message says why.

            >>> app = App("sqlite://")
            >>> @app.task(queue="mail", max_attempts=5)
            ... async def send_receipt(order_id: int) -> None: ...
            >>> app.tasks["send_receipt"].defaults.queue
            'mail'
        """
        options = TaskOptions(
            queue=check_name(queue, "queue="),
            priority=check_priority(priority, "priority="),
            max_attempts=self.max_attempts
            if max_attempts is None
            else check_count(max_attempts, "max_attempts="),
            timeout=self.timeout
            if timeout is None
            else check_timeout(timeout, "timeout="),
            backoff=self.backoff if backoff is None else _rule(backoff),
            dead_on=check_errors(dead_on, "dead_on="),
        )

        def register(function: Callable[P, R]) -> Task[P, R]:
            task_name = name_of(function) if name is None else name
            task = Task(function, self, task_name, options)
            if task.name in self.tasks:
                raise duplicate(task, self.tasks[task.name])
            self.tasks[task.name] = task
            return task

        return register if function is None else register(function)

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """
        Tell `listener` of every event; returns what ends that. It must not block.

            >>> app = App("sqlite://")
            >>> seen = []
            >>> stop = app.listen(lambda event: seen.append(event.name))
            >>> stop()
        """
        return self.events.listen(listener)

    def find_task(self, name: str) -> Task[..., Any]:
        """
        Find a registered task by name.

        Raises:
            TaskNotFound: the message names the nearest one.

            >>> App("sqlite://").find_task("x")
            Traceback (most recent call last):
            ...
            rowlock.TaskNotFound: This app has no task 'x'; it has none at all.
        """
        if name in self.tasks:
            return self.tasks[name]
        near = get_close_matches(name, self.tasks, n=1)
        known = (
            f"did you mean {near[0]!r}?"
            if near
            else f"it has {', '.join(sorted(self.tasks))}."
            if self.tasks
            else "it has none at all."
        )
        msg = f"This app has no task {name!r}; {known}"
        raise TaskNotFound(name, msg)

    # Enqueueing

    async def enqueue_many(
        self, jobs: Iterable[NewJob], *, connection: object | None = None
    ) -> list[int | None]:
        """
        Enqueue all of these jobs, or none, in one transaction.

        Returns one id a job, in the order given, None for a duplicate; empty for none.

            >>> import asyncio
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> asyncio.run(app.enqueue_many(greet.job(name=n) for n in ("Ada", "Bo")))
            [1, 2]
        """
        return await self.enqueue_jobs(check_jobs(jobs), connection)

    def enqueue_many_sync(
        self, jobs: Iterable[NewJob], *, connection: object | None = None
    ) -> list[int | None]:
        """
        Do what `enqueue_many` does, from synchronous code.

            >>> App("sqlite://").enqueue_many_sync([])
            []
        """
        return self.enqueue_jobs_sync(check_jobs(jobs), connection, "app.enqueue_many")

    async def enqueue_jobs(
        self, jobs: Sequence[NewJob], connection: object | None
    ) -> list[int | None]:
        """Hand jobs to the store, or to the lent connection."""
        if not jobs:
            return []
        await self.store.open()
        if connection is None:
            ids = await self.store.enqueue(jobs)
        else:
            ids = await self.store.lent.enqueue(jobs, connection)
        return self._told(jobs, ids)

    def enqueue_jobs_sync(
        self, jobs: Sequence[NewJob], connection: object | None, name: str
    ) -> list[int | None]:
        """Hand jobs to the store from synchronous code, or to the lent connection."""
        if connection is None:
            return self.portal.run(self.enqueue_jobs(jobs, None), name)
        if not jobs:
            return []
        # On a lent connection the caller blocks in its own driver, as it does in
        # every statement of its own; only the opening would wait on our loop.
        self.portal.wait(self.store.open())
        return self._told(jobs, self.store.lent.enqueue_sync(jobs, connection))

    # Living

    async def open(self) -> None:
        """
        Connect now instead of at the first call; a second time does nothing.

        Before a transaction of your own on a database that Rowlock has never used: the
        tables are made by another connection, which your lock would keep out.

            >>> import asyncio
            >>> asyncio.run(App("sqlite://").open())
        """
        await self.store.open()

    def open_sync(self) -> None:
        """
        Do what `open` does, from synchronous code.

            >>> App("sqlite://").open_sync()
        """
        self.portal.run(self.open(), "app.open")

    async def close(self) -> None:
        """
        Let go of every connection; the next call connects again.

            >>> import asyncio
            >>> asyncio.run(App("sqlite://").close())
        """
        await self.store.close()

    def close_sync(self) -> None:
        """
        Do what `close` does, from synchronous code.

            >>> App("sqlite://").close_sync()
        """
        self.portal.run(self.close(), "app.close")
        self.portal.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def worker(
        self,
        *,
        concurrency: int = 5,
        queues: Iterable[str] | None = None,
        lease: float | timedelta | None = None,
        shutdown_timeout: float | timedelta = 15,
    ) -> Worker:
        """
        Make a worker inside this process: it runs jobs for the length of `async with`.

        It claims from every queue unless `queues` names some. Leaving the block stops
        it as SIGTERM stops `rowlock worker`.

            >>> import asyncio
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> async def main() -> None:
            ...     async with app.worker(concurrency=5):
            ...         pass
            >>> asyncio.run(main())
        """
        from rowlock._worker.worker import Worker  # noqa: PLC0415 - a layer above

        return Worker(
            self,
            concurrency=concurrency,
            queues=queues,
            lease=self.lease if lease is None else check_lease(lease, "lease="),
            shutdown_timeout=to_delay(shutdown_timeout, "shutdown_timeout="),
        )

    def _told(
        self, jobs: Sequence[NewJob], ids: Sequence[int | None]
    ) -> list[int | None]:
        for job, job_id in zip(jobs, ids, strict=True):
            self.events.emit(
                JobDuplicate(
                    task=job.task, queue=job.queue, idempotency_key=job.idempotency_key
                )
                if job_id is None
                else JobEnqueued(job_id=job_id, task=job.task, queue=job.queue)
            )
        return list(ids)


def default_url() -> str:
    """Read where the store is from the environment."""
    for variable in ("ROWLOCK_DATABASE_URL", "DATABASE_URL"):
        if url := os.environ.get(variable):
            return url
    return DEFAULT_URL


def check_retention(value: object) -> Retention:
    """Read how long finished jobs stay."""
    if value is None:
        return Retention()
    if not isinstance(value, Retention):
        msg = f"retention= takes a Retention(failed=3600) or the like, not {value!r}."
        raise UsageError(msg)
    return value


def _rule(backoff: BackoffLike | Callable[[int], float | timedelta]) -> BackoffRule:
    return backoff if callable(backoff) else to_backoff(backoff, "backoff=")
