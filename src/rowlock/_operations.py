"""
What an operator does to jobs, from Python: cancel, replay, move, delete.

Verbs on many jobs answer per id, and go in steps so that none holds the store up; each
step is told as an event.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from rowlock._access import Reaching
from rowlock._answers import Answer
from rowlock._awaited import awaited
from rowlock._durations import to_delay
from rowlock._errors import UsageError
from rowlock._extensions import Extensions
from rowlock._filter import PAYLOADS_LOOKED_AT, Filter
from rowlock._job import Status, check_id
from rowlock._operator import who
from rowlock._options import check_name, check_priority
from rowlock._pace import Pace, check_pace, step_of

if TYPE_CHECKING:
    from rowlock._events import Event
    from rowlock._events.operators import JobsReplayed

_log = logging.getLogger("rowlock")

Where: TypeAlias = int | Iterable[int] | Filter
"""Which jobs an operator's verb means: an id, ids, or a `Filter`."""

# How many jobs one transaction changes, and how many ids one read gives.
STEP = 1000
LARGEST_SEARCH = 20_000

CUT = (
    f"Payloads were looked at in the newest {PAYLOADS_LOOKED_AT:,} of the jobs that fit"
    " otherwise, and there are more: narrow the filter to get at older ones."
)


class Operations(Reaching):
    """The operators' verbs of an app."""

    _extensions: Extensions

    @awaited("app")
    async def cancel(self, where: Where, *, by: str | None = None) -> Sequence[Answer]:
        """
        Cancel jobs: pending ones at once, running ones when their handler stops.

        `where` is an id, ids, or a filter; an answer a job, in order. `by` says who,
        for the job's story; the user of this process unless said.

        Raises:
            UsageError: the filter is empty, so it would fit every job.

            >>> import asyncio
            >>> from rowlock import App
            >>> [str(answer) for answer in asyncio.run(App("sqlite://").cancel(17))]
            ['not found']
        """
        from rowlock._events.operators import JobsCancelled

        operator = who(by)
        return await self._each(
            where,
            partial(self._store.cancel, by=operator),
            told=lambda done: JobsCancelled(
                by=operator,
                ids=_ids(a for a in done if a.status is not Status.RUNNING),
                asked=_ids(a for a in done if a.status is Status.RUNNING),
            ),
        )

    def cancel_sync(self, where: Where, *, by: str | None = None) -> Sequence[Answer]:
        """
        Do what `cancel` does, from synchronous code.

            >>> from rowlock import App
            >>> [str(answer) for answer in App("sqlite://").cancel_sync([17, 18])]
            ['not found', 'not found']
        """
        return self._portal.run(self.cancel(where, by=by), "app.cancel")

    @awaited("app")
    async def replay(
        self,
        where: Where,
        *,
        rate: float | None = None,
        spread: float | timedelta | None = None,
        delay: float | timedelta = 0,
        queue: str | None = None,
        by: str | None = None,
    ) -> Sequence[Answer]:
        """
        Run dead letters and cancelled jobs again, with their failures forgotten.

        Answers as `cancel` does. Of several with one idempotency key the newest goes,
        and none whose key an unfinished job holds (`blocked by 17`).

        With `rate` they are due at most so many a second, with `spread` over that
        time, the oldest first, and the first after `delay`; nothing has to keep
        running for it. Where it is stopped half way, the same call goes on with the
        others. `queue` is where they are to run, as in a queue with few workers.

            >>> import asyncio
            >>> from rowlock import App, Filter
            >>> app = App("sqlite://")
            >>> asyncio.run(app.replay(Filter(task="send_receipt"), rate=50))
            []
        """
        operator, first = who(by), to_delay(delay, "delay=")
        to_queue = None if queue is None else check_name(queue, "queue=")
        pace = check_pace(rate, spread)
        verb = partial(self._store.replay, by=operator, queue=to_queue)
        told = partial(_replayed, by=operator, to_queue=to_queue)
        if pace == (None, None):
            return await self._each(where, partial(verb, delay=first), told=told)

        if not isinstance(where, Filter):
            where = [check_id(job_id) for job_id in _each_of(where)]
        ids = await self._newest_first(where)
        slots = Pace(len(ids), step_of(*pace, len(ids)), first)

        async def paced(step: Sequence[int]) -> Sequence[Answer]:
            # The newest go first, as each holds its key against older ones, and are due
            # last: what a call leaves that is stopped is due before them.
            due = slots.take(len(step))
            return (await verb(step[::-1], delay=due, pace=slots.step))[::-1]

        answers = await self._each(ids, paced, told=told)
        if isinstance(where, Filter):
            return answers
        by_id = {answer.job_id: answer for answer in answers}
        return [by_id[job_id] for job_id in where]

    def replay_sync(
        self,
        where: Where,
        *,
        rate: float | None = None,
        spread: float | timedelta | None = None,
        delay: float | timedelta = 0,
        queue: str | None = None,
        by: str | None = None,
    ) -> Sequence[Answer]:
        """
        Do what `replay` does, from synchronous code.

            >>> from rowlock import App
            >>> [str(answer) for answer in App("sqlite://").replay_sync(17)]
            ['not found']
        """
        call = self.replay(
            where, rate=rate, spread=spread, delay=delay, queue=queue, by=by
        )
        return self._portal.run(call, "app.replay")

    @awaited("app")
    async def move(
        self,
        where: Where,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: float | timedelta | None = None,
        by: str | None = None,
    ) -> Sequence[Answer]:
        """
        Give pending jobs another queue, priority or due time; what is None stays.

        `delay` counts from the store's now, so `delay=0` makes them due at once.
        Answers as `cancel` does.

        Raises:
            UsageError: nothing would change, or the filter is empty.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> job_id = greet.options(delay=3600).enqueue_sync("Ada")
            >>> [str(answer) for answer in app.move_sync(job_id, delay=0)]
            ['done']
        """
        from rowlock._events.operators import JobsMoved

        operator = who(by)
        if queue is None and priority is None and delay is None:
            msg = "move() changes nothing: give queue=, priority= or delay=."
            raise UsageError(msg)
        to_queue = None if queue is None else check_name(queue, "queue=")
        to = None if priority is None else check_priority(priority, "priority=")
        after = None if delay is None else to_delay(delay, "delay=")

        return await self._each(
            where,
            partial(
                self._store.move, by=operator, queue=to_queue, priority=to, delay=after
            ),
            told=lambda done: JobsMoved(
                by=operator,
                ids=_ids(done),
                to_queue=to_queue,
                priority=to,
                delay_s=None if after is None else after.total_seconds(),
            ),
        )

    def move_sync(
        self,
        where: Where,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: float | timedelta | None = None,
        by: str | None = None,
    ) -> Sequence[Answer]:
        """
        Do what `move` does, from synchronous code.

            >>> from rowlock import App, Filter
            >>> App("sqlite://").move_sync(Filter(queue="mail"), priority=10)
            []
        """
        call = self.move(where, queue=queue, priority=priority, delay=delay, by=by)
        return self._portal.run(call, "app.move")

    @awaited("app")
    async def delete(self, where: Where, *, by: str | None = None) -> Sequence[Answer]:
        """
        Remove finished jobs for good, with all that they tell; answers as `cancel`.

        Pending and running jobs stay: cancel them first.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> job_id = greet.enqueue_sync("Ada")
            >>> [str(answer) for answer in app.delete_sync(job_id)]
            ['already pending']
            >>> answers = app.cancel_sync(job_id)
            >>> [str(answer) for answer in app.delete_sync(job_id)]
            ['done']
        """
        from rowlock._events.operators import JobsDeleted

        operator = who(by)
        return await self._each(
            where,
            self._store.delete,
            told=lambda done: JobsDeleted(by=operator, ids=_ids(done)),
        )

    def delete_sync(self, where: Where, *, by: str | None = None) -> Sequence[Answer]:
        """
        Do what `delete` does, from synchronous code.

            >>> from rowlock import App
            >>> [str(answer) for answer in App("sqlite://").delete_sync(17)]
            ['not found']
        """
        return self._portal.run(self.delete(where, by=by), "app.delete")

    async def _each(
        self,
        where: Where,
        verb: Callable[[Sequence[int]], Awaitable[Sequence[Answer]]],
        *,
        told: Callable[[Sequence[Answer]], Event],
    ) -> Sequence[Answer]:
        """Do it step by step; `told` makes a step's event of what was done."""
        await self._store.open()
        answers: list[Answer] = []
        async for ids in self._steps(where):
            step = await verb(ids)
            if done := [answer for answer in step if answer.done]:
                self._extensions.emit(told(done))
            answers.extend(step)
        return answers

    async def _newest_first(self, where: Where) -> list[int]:
        await self._store.open()
        found = {job_id async for ids in self._steps(where) for job_id in ids}
        return sorted(found, reverse=True)

    async def _steps(self, where: Where) -> AsyncIterator[Sequence[int]]:
        if not isinstance(where, Filter):
            # All of them before the first is touched.
            ids = [check_id(job_id) for job_id in _each_of(where)]
            for start in range(0, len(ids), STEP):
                yield ids[start : start + STEP]
            return
        if where.is_empty:
            msg = (
                "An empty Filter() fits every job: say which jobs are meant, or"
                " Filter(all=True)."
            )
            raise UsageError(msg)
        after = None
        while (
            found := await self._store.search(where, after=after, limit=LARGEST_SEARCH)
        ).ids:
            if found.is_cut and after is None:
                _log.warning(CUT)
            for start in range(0, len(found.ids), STEP):
                yield found.ids[start : start + STEP]
            after = found.ids[-1]


def _each_of(where: int | Iterable[int]) -> Iterable[object]:
    # A text can be iterated too, and isn't meant so.
    if isinstance(where, Iterable) and not isinstance(where, str):
        return where
    return [where]


def _replayed(done: Sequence[Answer], *, by: str, to_queue: str | None) -> JobsReplayed:
    from rowlock._events.operators import JobsReplayed

    return JobsReplayed(by=by, ids=_ids(done), to_queue=to_queue)


def _ids(answers: Iterable[Answer]) -> tuple[int, ...]:
    return tuple(answer.job_id for answer in answers)
