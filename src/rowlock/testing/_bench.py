"""
A worker's inside without its loops: it runs the claims it is handed, one at a time.

Handlers run as in a worker, by the same code: timeouts, signals, `around`, `follow`,
`spawn`, and one write of the outcome. What is missing is what looks for work by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from rowlock._errors import StoreUnavailable
from rowlock._events import Event, JobEnqueued
from rowlock._events.attempts import (
    AttemptFailed,
    AttemptReleased,
    AttemptSnoozed,
    AttemptSucceeded,
)
from rowlock._events.worker import ClaimRefused, JobCancelled, OutcomeDropped
from rowlock._extensions import Around, Extensions
from rowlock._job import Claim, Outcome, Status
from rowlock._signals import Retry
from rowlock._worker.buffer import Buffer
from rowlock._worker.execute import leaves
from rowlock._worker.finish import Finish
from rowlock._worker.handlers import Handlers
from rowlock._worker.outage import Outage
from rowlock._worker.runs import Runs
from rowlock._worker.save import Save
from rowlock._worker.upkeep import Upkeep

if TYPE_CHECKING:
    from types import TracebackType

    from rowlock._app import App
    from rowlock._attempt import Attempt

# For a handler that is told to stop because the test itself is being stopped.
_STOPPING_S = 1.0


class HandlerFailed(AssertionError):
    """
    An attempt failed without an exception of its handler's to raise.

    It ran longer than its timeout, or couldn't be started: the message says which.

        >>> raise HandlerFailed("Attempt 1 of job 7 ('greet') failed: TimeoutError")
        Traceback (most recent call last):
        ...
        rowlock.testing.HandlerFailed: Attempt 1 of job 7 ('greet') failed: TimeoutError
    """


HandlerFailed.__module__ = "rowlock.testing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """
    One attempt that a test has run, and where its job went.

    `status` is `pending` after a failure that is tried again, and after a `Snooze`;
    `run_at` is then when. `failed` says that it counts as a failure, and `error` is
    what the handler raised.

        >>> from rowlock import App
        >>> from rowlock.testing import drain_sync
        >>> app = App("sqlite://")
        >>> @app.task
        ... def greet(name: str) -> None: ...
        >>> greet.enqueue_sync("Ada")
        1
        >>> ran = drain_sync(app).ran[0]
        >>> ran.task, ran.attempt, ran.status.value
        ('greet', 1, 'succeeded')
    """

    job_id: int
    task: str
    queue: str
    attempt: int
    status: Status | None
    run_at: datetime | None = None
    failed: bool = False
    error: BaseException | None = field(default=None, compare=False)

    @property
    def is_steering(self) -> bool:
        """Whether a handler's own `Retry` failed it, and it has another try."""
        return (
            self.status is Status.PENDING
            and self.error is not None
            and all(isinstance(each, Retry) for each in leaves(self.error))
        )


class Watched(Extensions):
    """An app's extensions, with one around all of them that sees and hears."""

    def __init__(self, watched: Extensions) -> None:
        super().__init__()
        self._watched = watched
        self.events: list[Event] = []
        self.errors: list[BaseException] = []

    @property
    def arounds(self) -> Sequence[Around]:
        """What surrounds an attempt: the sight of what comes out of it first."""
        return (self._see, *self._watched.arounds)

    def emit(self, event: Event) -> None:
        """Tell everybody, and keep it."""
        self.events.append(event)
        self._watched.emit(event)

    def followed(self, claim: Claim, outcome: Outcome) -> Outcome:
        """Add the jobs that follow to an outcome."""
        return self._watched.followed(claim, outcome)

    def _see(self, _: Attempt) -> AbstractAsyncContextManager[object]:
        return _Sight(self.errors)


class _Sight:
    """Keeps what is raised; no generator, whose frame would be in the traceback."""

    def __init__(self, errors: list[BaseException]) -> None:
        self._errors = errors

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._errors.append(error)


class Bench:
    """Runs claims, one at a time."""

    def __init__(self, app: App, queues: Iterable[str] | None) -> None:
        self._watched = Watched(app._extensions)
        made = app.worker(concurrency=1, queues=queues)._settings
        self.settings = replace(made, extensions=self._watched)
        self._calm = asyncio.Event()
        self._runs = Runs(
            on_room=lambda _queue: self._calm.set(),
            on_stuck=lambda: None,
            max_stuck=self.settings.max_stuck,
        )
        self.outage = Outage(self.settings)
        save = Save(self.settings, self.outage, self._runs)
        self._finish = Finish(self.settings, self._runs, self.outage, save)
        self._handlers = Handlers(self.settings, self._runs, self._finish, save)
        buffer = Buffer(self.settings, self._runs, blocked_s=lambda: 0)
        self.upkeep = Upkeep(self.settings, self.outage, self._runs, buffer)
        self._loops = [
            asyncio.create_task(self._finish.loop()),
            asyncio.create_task(save.loop()),
        ]

    async def run(self, claim: Claim) -> tuple[Ran, Sequence[JobEnqueued]]:
        """Run a claim to its end; tell what it came to, and which jobs came of it."""
        self._watched.events.clear()
        self._watched.errors.clear()
        self._calm.clear()
        self._handlers.start(claim)
        await self._calm.wait()
        await self._finish.flush()
        events = self._watched.events
        spawned = [event for event in events if isinstance(event, JobEnqueued)]
        return _came_to(claim, events, self._watched.errors), spawned

    async def close(self) -> None:
        """Give back what still runs, where the test was stopped, and end."""
        try:
            for run in self._runs:
                self._handlers.stop(run, "shutdown")
            if self._runs.live:
                self._calm.clear()
                async with asyncio.timeout(_STOPPING_S):
                    await self._calm.wait()
                    await self._finish.flush()
        except TimeoutError:
            pass
        finally:
            self._handlers.close()
            for loop in self._loops:
                loop.cancel()
            await asyncio.gather(*self._loops, return_exceptions=True)


@asynccontextmanager
async def bench(app: App, queues: Iterable[str] | None = None) -> AsyncIterator[Bench]:
    """Have a bench on an app's store for a while."""
    made = Bench(app, queues)
    try:
        yield made
    finally:
        await made.close()


def raise_failure(ran: Ran) -> None:
    """Raise what an attempt failed of, if it did so against its handler's will."""
    if ran.error is None or not ran.failed or ran.is_steering:
        return
    after = "is due again later" if ran.status is Status.PENDING else f"is {ran.status}"
    ran.error.add_note(
        f"In attempt {ran.attempt} of job {ran.job_id}, task {ran.task!r}; the job"
        f" {after}."
    )
    raise ran.error


def _came_to(
    claim: Claim, events: Iterable[Event], errors: Sequence[BaseException]
) -> Ran:
    ran = Ran(
        job_id=claim.job_id,
        task=claim.task,
        queue=claim.queue,
        attempt=claim.attempts,
        status=None,
        error=errors[-1] if errors else None,
    )
    for event in events:
        if (told := _told(ran, event)) is not None:
            return told
    return ran


def _told(ran: Ran, event: Event) -> Ran | None:
    """Read what became of an attempt from an event; None where it tells nothing."""
    match event:
        case AttemptSucceeded():
            ran = replace(ran, status=Status.SUCCEEDED, error=None)
        case JobCancelled():
            ran = replace(ran, status=Status.CANCELLED)
        case AttemptSnoozed(run_at=run_at):
            ran = replace(ran, status=Status.PENDING, run_at=run_at)
        case AttemptReleased():
            ran = replace(ran, status=Status.PENDING)
        case AttemptFailed():
            ran = _failed(ran, event)
        case ClaimRefused(found_status=status):
            ran = replace(ran, status=status)
        case OutcomeDropped():
            msg = f"The outcome of job {ran.job_id} couldn't be written."
            raise StoreUnavailable(msg)
        case _:
            return None
    return ran


def _failed(ran: Ran, event: AttemptFailed) -> Ran:
    error = ran.error
    if error is None or isinstance(error, asyncio.CancelledError):
        error = HandlerFailed(
            f"Attempt {ran.attempt} of job {ran.job_id} ({ran.task!r}) failed:"
            f" {event.error}"
        )
    return replace(
        ran,
        status=Status.FAILED if event.retry_at is None else Status.PENDING,
        run_at=event.retry_at,
        failed=True,
        error=error,
    )
