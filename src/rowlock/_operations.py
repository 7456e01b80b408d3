"""
What an operator does to jobs, from Python: cancel, replay, move, delete, pause, resume.

Verbs on many jobs answer per id, and go in steps so that none holds the store up; each
step is told as an event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from rowlock._answers import Answer, Filter, Pause
from rowlock._durations import to_delay
from rowlock._errors import UsageError
from rowlock._extensions import Extensions
from rowlock._job import Status, check_id
from rowlock._options import check_name, check_priority
from rowlock._payload import storable
from rowlock._task import KeyedTask, check_task

if TYPE_CHECKING:
    from rowlock._events import Event
    from rowlock._store import Store
    from rowlock._sync import Portal

Where: TypeAlias = int | Iterable[int] | Filter

# How many jobs one transaction changes, and how many ids one read gives.
STEP = 1000
LARGEST_SEARCH = 20_000


class Operations:
    """The operators' verbs of an app."""

    _store: Store
    _portal: Portal
    _extensions: Extensions

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

        who = _who(by)
        return await self._each(
            where,
            partial(self._store.cancel, by=who),
            told=lambda done: JobsCancelled(
                by=who,
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

    async def replay(self, where: Where, *, by: str | None = None) -> Sequence[Answer]:
        """
        Run dead letters and cancelled jobs again, with their failures forgotten.

        Answers as `cancel` does. Of several with one idempotency key the newest goes,
        and none whose key an unfinished job holds (`blocked by 17`).

            >>> import asyncio
            >>> from rowlock import App
            >>> [str(answer) for answer in asyncio.run(App("sqlite://").replay(17))]
            ['not found']
        """
        from rowlock._events.operators import JobsReplayed

        who = _who(by)
        return await self._each(
            where,
            partial(self._store.replay, by=who),
            told=lambda done: JobsReplayed(by=who, ids=_ids(done)),
        )

    def replay_sync(self, where: Where, *, by: str | None = None) -> Sequence[Answer]:
        """
        Do what `replay` does, from synchronous code.

            >>> from rowlock import App
            >>> [str(answer) for answer in App("sqlite://").replay_sync(17)]
            ['not found']
        """
        return self._portal.run(self.replay(where, by=by), "app.replay")

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

        who = _who(by)
        if queue is None and priority is None and delay is None:
            msg = "move() changes nothing: give queue=, priority= or delay=."
            raise UsageError(msg)
        to_queue = None if queue is None else check_name(queue, "queue=")
        to = None if priority is None else check_priority(priority, "priority=")
        after = None if delay is None else to_delay(delay, "delay=")

        return await self._each(
            where,
            partial(self._store.move, by=who, queue=to_queue, priority=to, delay=after),
            told=lambda done: JobsMoved(
                by=who,
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

        who = _who(by)
        return await self._each(
            where,
            self._store.delete,
            told=lambda done: JobsDeleted(by=who, ids=_ids(done)),
        )

    def delete_sync(self, where: Where, *, by: str | None = None) -> Sequence[Answer]:
        """
        Do what `delete` does, from synchronous code.

            >>> from rowlock import App
            >>> [str(answer) for answer in App("sqlite://").delete_sync(17)]
            ['not found']
        """
        return self._portal.run(self.delete(where, by=by), "app.delete")

    async def pause(
        self,
        *,
        queue: str | None = None,
        task: str | KeyedTask[..., Any] | None = None,
        for_: float | timedelta | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> None:
        """
        Claim no more jobs of a queue, or of a task: give one of the two.

        What runs goes on. It ends with `resume`, or after `for_`, in seconds or a
        `timedelta` from the store's now. A second pause replaces the first.

        Raises:
            UsageError: neither or both are given.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> app.pause_sync(queue="mail", for_=3600, reason="the provider is down")
            >>> [pause.reason for pause in app.stats_sync().pauses]
            ['the provider is down']
        """
        from rowlock._events.operators import PauseBegan

        who, span = _who(by), None if for_ is None else to_delay(for_, "for_=")
        paused = _pause(queue, task, reason=reason, by=who)
        await self._store.open()
        await self._store.pause(paused, for_=span)
        self._extensions.emit(
            PauseBegan(
                by=who,
                queue=paused.queue,
                task=paused.task,
                for_s=None if span is None else span.total_seconds(),
                reason=paused.reason,
            )
        )

    def pause_sync(
        self,
        *,
        queue: str | None = None,
        task: str | KeyedTask[..., Any] | None = None,
        for_: float | timedelta | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> None:
        """
        Do what `pause` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").pause_sync(task="send_receipt")
        """
        call = self.pause(queue=queue, task=task, for_=for_, reason=reason, by=by)
        self._portal.run(call, "app.pause")

    async def resume(
        self,
        *,
        queue: str | None = None,
        task: str | KeyedTask[..., Any] | None = None,
        by: str | None = None,
    ) -> bool:
        """
        Claim jobs of a queue, or of a task, again; False: it wasn't paused.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> app.pause_sync(queue="mail")
            >>> app.resume_sync(queue="mail"), app.resume_sync(queue="mail")
            (True, False)
        """
        from rowlock._events.operators import PauseEnded

        who = _who(by)
        paused = _pause(queue, task, reason=None, by=who)
        await self._store.open()
        was_paused = await self._store.pause(paused, resume=True)
        if was_paused:
            self._extensions.emit(
                PauseEnded(by=who, queue=paused.queue, task=paused.task)
            )
        return was_paused

    def resume_sync(
        self,
        *,
        queue: str | None = None,
        task: str | KeyedTask[..., Any] | None = None,
        by: str | None = None,
    ) -> bool:
        """
        Do what `resume` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").resume_sync(queue="mail")
            False
        """
        call = self.resume(queue=queue, task=task, by=by)
        return self._portal.run(call, "app.resume")

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

    async def _steps(self, where: Where) -> AsyncIterator[Sequence[int]]:
        if not isinstance(where, Filter):
            # All of them before the first is touched.
            ids = [check_id(job_id) for job_id in _each_of(where)]
            for start in range(0, len(ids), STEP):
                yield ids[start : start + STEP]
            return
        if where == Filter():
            msg = "An empty Filter() fits every job: say which jobs are meant."
            raise UsageError(msg)
        after = None
        while found := await self._store.search(
            where, after=after, limit=LARGEST_SEARCH
        ):
            for start in range(0, len(found), STEP):
                yield found[start : start + STEP]
            after = found[-1]


def _each_of(where: int | Iterable[int]) -> Iterable[object]:
    # A text can be iterated too, and isn't meant so.
    if isinstance(where, Iterable) and not isinstance(where, str):
        return where
    return [where]


def _ids(answers: Iterable[Answer]) -> tuple[int, ...]:
    return tuple(answer.job_id for answer in answers)


def _pause(
    queue: str | None,
    task: str | KeyedTask[..., Any] | None,
    *,
    reason: str | None,
    by: str,
) -> Pause:
    if (queue is None) == (task is None):
        msg = (
            "A pause is of a queue or of a task: give exactly one of queue= and task=."
        )
        raise UsageError(msg)
    return Pause(
        queue=None if queue is None else check_name(queue, "queue="),
        task=None if task is None else check_task(task),
        reason=None if reason is None else check_name(reason, "reason="),
        by=by,
    )


def _who(by: str | None) -> str:
    return current_user() if by is None else check_name(by, "by=")


def current_user() -> str:
    """Name who runs this process, for the story of a job."""
    import getpass

    try:
        return storable(getpass.getuser())
    except (KeyError, OSError, ImportError):  # a container's user may have no name
        return "unknown"
