"""Running each job where it is enqueued, before the enqueue returns."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rowlock import _outcome
from rowlock._job import Claim
from rowlock._store import Demand
from rowlock.testing._bench import Bench, bench, raise_failure

if TYPE_CHECKING:
    from rowlock._app import App
    from rowlock._job import NewJob

# Deeper than anybody means, and well within Python's own bound.
DEEPEST = 25
MOST_RUNS = 1000
_LARGEST_CLAIM = 500
# Between two looks at a lock that another loop holds; loops share no lock to await.
_LOOK_S = 0.001


@dataclass(slots=True)
class _Enqueue:
    """The outermost enqueue, and what the jobs under it have failed of."""

    errors: list[BaseException] = field(default_factory=list)
    runs: int = 0


_outermost: ContextVar[_Enqueue] = ContextVar("rowlock.testing.inline")
_depth: ContextVar[int] = ContextVar("rowlock.testing.depth", default=0)


@contextmanager
def inline(app: App) -> Iterator[App]:
    """
    Run each job where it is enqueued, for the length of the block.

    The job is written to the store and claimed like any other, so arguments go through
    the codec; its handler has run and its outcome is written when the enqueue returns.
    What the handler raises, the enqueue raises; the job then stands as that attempt
    left it, and isn't tried again by itself. After a `Snooze`, or a `Retry` with a try
    left, the enqueue returns. Jobs that are enqueued, spawned or followed by an inline
    job are run, too, and what they raise comes out of the outermost enqueue.

    What isn't due or is paused stays pending, for `drain`; so do jobs on a lent
    connection, as they aren't there before the commit.

        >>> from rowlock import App
        >>> app = App("sqlite://")
        >>> @app.task
        ... def greet(name: str) -> None:
        ...     print("Hello", name)
        >>> with inline(app):
        ...     job_id = greet.enqueue_sync("Ada")
        Hello Ada
    """
    before, app._inline = app._inline, _Inline(app).run
    try:
        yield app
    finally:
        app._inline = before


class _Inline:
    """Runs the jobs of an app as they are enqueued."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._claiming = threading.Lock()

    async def run(self, jobs: Sequence[NewJob], ids: Sequence[int | None]) -> None:
        """Run these jobs, and what comes of them."""
        __tracebackhide__ = True
        if (under := _outermost.get(None)) is not None:
            await self._run_under(under, jobs, ids)
            return
        enqueue = _Enqueue()
        token = _outermost.set(enqueue)
        try:
            await self._run_under(enqueue, jobs, ids)
        finally:
            _outermost.reset(token)
        if len(enqueue.errors) == 1:
            raise enqueue.errors[0]
        if enqueue.errors:
            msg = "several inline jobs failed"
            raise BaseExceptionGroup(msg, enqueue.errors)

    async def _run_under(
        self, enqueue: _Enqueue, jobs: Sequence[NewJob], ids: Sequence[int | None]
    ) -> None:
        depth = _depth.get() + 1
        if depth > DEEPEST:
            raise _too_many(jobs[0].task, f"{DEEPEST} enqueues deep")
        token = _depth.set(depth)
        try:
            async with bench(self._app) as made:
                waiting = deque(
                    (job_id, job.task, job.queue)
                    for job, job_id in zip(jobs, ids, strict=True)
                    if job_id is not None
                )
                while waiting:
                    job_id, task, queue = waiting.popleft()
                    claim = await self._claim(made, job_id, task, queue)
                    if claim is None:
                        continue
                    enqueue.runs += 1
                    if enqueue.runs > MOST_RUNS:
                        await self._give_back(made, [claim])
                        raise _too_many(task, f"{MOST_RUNS:,} runs long")
                    ran, spawned = await made.run(claim)
                    waiting.extend((e.job_id, e.task, e.queue) for e in spawned)
                    try:
                        raise_failure(ran)
                    except BaseException as error:  # noqa: BLE001 - raised outermost
                        enqueue.errors.append(error)
        finally:
            _depth.reset(token)

    async def _claim(
        self, made: Bench, job_id: int, task: str, queue: str
    ) -> Claim | None:
        """Claim this very job; None where it isn't to be had now."""
        store = made.settings.store
        found = await store.get([job_id])
        # What is planned for later is left before others are claimed for its sake.
        if not found or found[0].run_at > found[0].updated_at:
            return None
        mine: list[Claim] = []
        others: list[Claim] = []
        demand = Demand(
            total=_LARGEST_CLAIM,
            tasks=frozenset({task}) & frozenset(self._app.tasks),
            queues={queue: _LARGEST_CLAIM},
        )
        async with self._turn():
            try:
                # A claim takes what is first in line, and that may be an older job.
                while not mine:
                    claimed = await store.claim(
                        demand, worker=made.settings.worker, lease=made.settings.lease
                    )
                    for claim in claimed.claims:
                        (mine if claim.job_id == job_id else others).append(claim)
                    if not claimed.claims:
                        break
            finally:
                await self._give_back(made, others)
        return mine[0] if mine else None

    async def _give_back(self, made: Bench, claims: Sequence[Claim]) -> None:
        if claims:
            outcomes = [_outcome.released(c.key, unstarted=True) for c in claims]
            await made.settings.store.finish(outcomes)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Claim alone: what another enqueue gives back would be missed meanwhile."""
        while not self._claiming.acquire(blocking=False):  # noqa: ASYNC110 - two loops
            await asyncio.sleep(_LOOK_S)
        try:
            yield
        finally:
            self._claiming.release()


def _too_many(task: str, how_far: str) -> AssertionError:
    return AssertionError(
        f"Inline jobs are {how_far}, as where a job enqueues itself; the last was of"
        f" {task!r}. Without inline, drain(limit=) runs as many as you say."
    )
