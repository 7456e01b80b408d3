"""
The app: a registry of tasks on a store.

An app connects at its first call and can be used from any thread and any loop.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from rowlock import stores
from rowlock._access import Access
from rowlock._answers import Retention
from rowlock._awaited import awaited
from rowlock._clock import Clock, SystemClock
from rowlock._durations import to_delay
from rowlock._errors import UsageError
from rowlock._extending import Extending
from rowlock._extensions import Extensions, enqueued
from rowlock._job import NewJob, check_jobs
from rowlock._once import Once
from rowlock._operations import Operations
from rowlock._options import (
    check_count,
    check_interval,
    check_lease,
    check_timeout,
    check_version,
)
from rowlock._pauses import Pauses
from rowlock._payload import MAX_PAYLOAD
from rowlock._reading import Reading
from rowlock._registry import Registry
from rowlock._retry import DEFAULT_BACKOFF, BackoffLike, BackoffRule, to_backoff
from rowlock._served import Queues, check_served
from rowlock._task import Door, Task

if TYPE_CHECKING:
    from types import TracebackType

    from rowlock._dead_letters import ReplayRule
    from rowlock._worker.worker import Worker

DEFAULT_URL = "sqlite:///rowlock.db"
DEFAULT_LEASE = 300.0
DEFAULT_TIMEOUT = 900.0
DEFAULT_SAFETY_INTERVAL = 30.0
DEFAULT_POLL_INTERVAL = 2.0

Inline: TypeAlias = Callable[[Sequence[NewJob], Sequence[int | None]], Awaitable[None]]


class App(Registry, Extending, Reading, Operations, Pauses, Once):
    """
    Tasks, and the store where their jobs live.

    Without a URL it reads ROWLOCK_DATABASE_URL, then DATABASE_URL, else it is
    `sqlite:///rowlock.db`. The settings are the defaults of every task and worker;
    durations are seconds or a `timedelta`. `safety_interval` is how often a worker
    looks for due jobs though nothing has woken it; where nothing can, as behind a
    pooler, after `poll_interval`, and after twice as long each time until it finds one.
    `version` is that of your code, for operators: it stands in each error that a worker
    records.

    `with app:` and `async with app:` open it and close it at their end, in synchronous
    code and on a loop; one that is dropped unclosed lets go of what it had by itself.

    Raises:
        ConfigError: the URL has a scheme that no store serves.

        >>> with App("sqlite://") as app:
        ...     app.url
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
        safety_interval: float | timedelta = DEFAULT_SAFETY_INTERVAL,
        poll_interval: float | timedelta = DEFAULT_POLL_INTERVAL,
        retention: Retention | None = None,
        max_payload: int = MAX_PAYLOAD,
        version: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.max_attempts: int = check_count(max_attempts, "max_attempts=")
        self.backoff: BackoffRule = to_backoff(backoff, "backoff=")
        self.timeout: float = check_timeout(timeout, "timeout=")
        self.lease: timedelta = check_lease(lease, "lease=")
        self.safety_interval: timedelta = check_interval(
            safety_interval, "safety_interval="
        )
        self.poll_interval: timedelta = check_interval(poll_interval, "poll_interval=")
        self.retention: Retention = check_retention(retention)
        self.max_payload: int = check_count(max_payload, "max_payload=")
        self.version: str | None = check_version(version)
        self.tasks: dict[str, Task[..., Any]] = {}
        self._replay_rules: dict[str, ReplayRule] = {}
        self._extensions = Extensions()
        clock = clock or SystemClock()
        # An empty URL is no unset one: it would have the jobs go elsewhere unseen.
        store = stores.connect(default_url() if url is None else url, clock=clock)
        self._access = Access(store, clock, self.tasks, self.max_payload)
        # What `rowlock.testing.inline` does with jobs that were enqueued.
        self._inline: Inline | None = None
        enqueue, enqueue_sync = self._enqueue_jobs, self._enqueue_jobs_sync
        self._door = Door(enqueue, enqueue_sync, self.max_payload, self._arounds)

    def __repr__(self) -> str:
        return f"<App {self.url}>"

    @property
    def url(self) -> str:
        """Where the store is: absolute, and without a password."""
        return self._store.url

    # Enqueueing

    @awaited("app")
    async def enqueue_many(
        self, jobs: Iterable[NewJob], *, connection: object | None = None
    ) -> list[int | None]:
        """
        Enqueue all of these jobs, or none, in one transaction.

        Await it: a call that is dropped enqueues nothing, and logs an error. Returns
        one id a job, in the order given, None for a duplicate; empty for none.

            >>> import asyncio
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> asyncio.run(app.enqueue_many(greet.job(name=n) for n in ("Ada", "Bo")))
            [1, 2]
        """
        return await self._enqueue_jobs(check_jobs(jobs, "enqueue_many"), connection)

    def enqueue_many_sync(
        self, jobs: Iterable[NewJob], *, connection: object | None = None
    ) -> list[int | None]:
        """
        Do what `enqueue_many` does, from synchronous code.

            >>> App("sqlite://").enqueue_many_sync([])
            []
        """
        listed = check_jobs(jobs, "enqueue_many")
        return self._enqueue_jobs_sync(listed, connection, "app.enqueue_many")

    async def _enqueue_jobs(
        self, jobs: Sequence[NewJob], connection: object | None
    ) -> list[int | None]:
        """Hand jobs to the store, or to the lent connection."""
        if not jobs:
            return []
        if connection is None:
            await self._store.open()
            ids = await self._store.enqueue(jobs)
        else:
            if not self._store.lent.keeps_out(connection):
                await self._access.open_beside()
            ids = await self._store.lent.enqueue(jobs, connection)
        self._access.register.nudge()
        told = self._told(jobs, ids)
        # On a lent connection the jobs may not be there before the caller's commit.
        if self._inline is not None and connection is None:
            await self._inline(jobs, told)
        return told

    def _enqueue_jobs_sync(
        self, jobs: Sequence[NewJob], connection: object | None, name: str
    ) -> list[int | None]:
        """Hand jobs to the store from synchronous code, or to the lent connection."""
        if connection is None:
            return self._portal.run(self._enqueue_jobs(jobs, None), name)
        if not jobs:
            return []
        # On a lent connection the caller blocks in its own driver, as it does in
        # every statement of its own; only the opening would wait on our loop.
        if not self._store.lent.keeps_out(connection):
            self._portal.wait(self._access.open_beside())
        return self._told(jobs, self._store.lent.enqueue_sync(jobs, connection))

    # Living

    @awaited("app")
    async def open(self) -> None:
        """
        Connect now instead of at the first call; a second time does nothing.

            >>> import asyncio
            >>> asyncio.run(App("sqlite://").open())
        """
        await self._access.open()

    def open_sync(self) -> None:
        """
        Do what `open` does, from synchronous code.

            >>> App("sqlite://").open_sync()
        """
        self._portal.run(self.open(), "app.open")

    @awaited("app")
    async def close(self) -> None:
        """
        Let go of every connection; the next call connects again.

            >>> import asyncio
            >>> asyncio.run(App("sqlite://").close())
        """
        await self._access.close()

    def close_sync(self) -> None:
        """
        Do what `close` does, from synchronous code.

            >>> App("sqlite://").close_sync()
        """
        self._portal.run(self.close(), "app.close")
        self._portal.close()

    def __enter__(self) -> Self:
        from rowlock._sync import refuse_with_on_a_loop

        refuse_with_on_a_loop("app")
        self.open_sync()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close_sync()

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
        concurrency: int | None = None,
        queues: Queues | None = None,
        weights: Mapping[str, int] | None = None,
        lease: float | timedelta | None = None,
        shutdown_timeout: float | timedelta = 15,
        cancel_grace: float | timedelta = 5,
        max_stuck: int | None = None,
        blocked_after: float | timedelta = 1,
    ) -> Worker:
        """
        Make a worker inside this process: it runs jobs for the length of `async with`.

        It claims from every queue unless `queues` names some; `{"mail": 10}` is how
        many of a queue run at once, None for no limit of its own. `concurrency` is of
        all together: where it isn't said, what the limits come to, and 5 for those
        without one. When several queues have due jobs they take turns, and one of
        `weights={"mail": 3}` has three where another has one (1 to 100).

        Leaving the block stops it as SIGTERM stops `rowlock worker`.

        An async handler that was cancelled has `cancel_grace` to end (0.4 of the lease
        at most), a plain one until its timeout. Then it is stuck: it runs on and its
        place is free, unless more than `max_stuck` are (None is four times
        `concurrency`), when each keeps its place.
        Where a handler blocks the event loop, that is logged after `blocked_after`.

            >>> import asyncio
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> async def main() -> None:
            ...     async with app.worker(queues={"mail": 10, "default": None}):
            ...         pass
            >>> asyncio.run(main())
        """
        from rowlock._worker.settings import Settings
        from rowlock._worker.worker import Worker

        served = check_served(concurrency, queues, weights)
        settings = Settings(
            store=self._store,
            extensions=self._extensions,
            clock=self._access.clock,
            tasks=self.tasks,
            **served._asdict(),
            lease=self.lease if lease is None else check_lease(lease, "lease="),
            timeout=self.timeout,
            shutdown_timeout=to_delay(shutdown_timeout, "shutdown_timeout="),
            safety_interval=self.safety_interval,
            poll_interval=self.poll_interval,
            retention=self.retention,
            max_payload=self.max_payload,
            rules=tuple(self._replay_rules.values()),
            version=self.version,
            blocked_after=check_interval(blocked_after, "blocked_after="),
            cancel_grace=to_delay(cancel_grace, "cancel_grace="),
            max_stuck=4 * served.concurrency
            if max_stuck is None
            else check_count(max_stuck, "max_stuck="),
        )
        return Worker(settings)

    def _told(
        self, jobs: Sequence[NewJob], ids: Sequence[int | None]
    ) -> list[int | None]:
        for event in enqueued(jobs, ids):
            self._extensions.emit(event)
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
