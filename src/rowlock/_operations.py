"""
What an operator does to jobs, from Python: cancel, replay, move, delete.

Verbs on many jobs answer per id, and go in steps so that none holds the store up; each
step is told as an event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rowlock._access import Reaching
from rowlock._answers import Answer, Answers, Preview, PreviewGroup
from rowlock._awaited import awaited
from rowlock._choice import Where, choose
from rowlock._durations import to_delay
from rowlock._errors import UsageError
from rowlock._extensions import Extensions
from rowlock._filter import PAYLOADS_LOOKED_AT, Filter
from rowlock._job import TAKES, Status, VerbName, error_of
from rowlock._operator import who
from rowlock._options import check_name, check_priority
from rowlock._pace import Pace, check_pace, step_of

if TYPE_CHECKING:
    from rowlock._events import Event
    from rowlock._events.operators import JobsReplayed

# How many jobs one transaction changes.
STEP = 1000
# Of how many jobs a preview tells what they are.
SAMPLE = 500

CUT = (
    f"Payloads were looked at in the newest {PAYLOADS_LOOKED_AT:,} of the jobs that fit"
    " otherwise, and there are more: narrow the filter to get at older ones."
)


class Step(NamedTuple):
    """Some of the jobs that a verb is about, and how many those are."""

    ids: Sequence[int]
    of: int


class Operations(Reaching):
    """The operators' verbs of an app."""

    _extensions: Extensions

    @awaited("app")
    async def cancel(self, where: Where, *, by: str | None = None) -> Answers:
        """
        Cancel jobs: pending ones at once, running ones when their handler stops.

        `where` is an id, ids, or a filter. Of a filter it is those that can be
        cancelled, and they are known before the first is touched. An answer a job: in
        the order of the ids, or the newest first. `by` says who, for the job's story;
        the user of this process unless said.

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
            "cancel",
            where,
            lambda step: self._store.cancel(step.ids, by=operator),
            told=lambda done: JobsCancelled(
                by=operator,
                ids=_ids(a for a in done if a.status is not Status.RUNNING),
                asked=_ids(a for a in done if a.status is Status.RUNNING),
            ),
        )

    def cancel_sync(self, where: Where, *, by: str | None = None) -> Answers:
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
    ) -> Answers:
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
            >>> asyncio.run(app.replay(Filter(task="send_receipt"), rate=50)).done
            0
        """
        operator, first = who(by), to_delay(delay, "delay=")
        to_queue = None if queue is None else check_name(queue, "queue=")
        pace = check_pace(rate, spread)
        slots: Pace | None = None

        async def put_back(step: Step) -> Sequence[Answer]:
            nonlocal slots
            if slots is None:
                slots = Pace(step.of, step_of(*pace, step.of), first)
            # Due last are the newest, which go first: what a call leaves that is
            # stopped is due before them.
            answers = await self._store.replay(
                step.ids[::-1],
                by=operator,
                delay=slots.take(len(step.ids), of=step.of),
                pace=slots.step,
                queue=to_queue,
            )
            return answers[::-1]

        return await self._each(
            "replay",
            where,
            put_back,
            told=partial(_replayed, by=operator, to_queue=to_queue),
        )

    def replay_sync(
        self,
        where: Where,
        *,
        rate: float | None = None,
        spread: float | timedelta | None = None,
        delay: float | timedelta = 0,
        queue: str | None = None,
        by: str | None = None,
    ) -> Answers:
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
    ) -> Answers:
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
            "move",
            where,
            lambda step: self._store.move(
                step.ids, by=operator, queue=to_queue, priority=to, delay=after
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
    ) -> Answers:
        """
        Do what `move` does, from synchronous code.

            >>> from rowlock import App, Filter
            >>> App("sqlite://").move_sync(Filter(queue="mail"), priority=10).done
            0
        """
        call = self.move(where, queue=queue, priority=priority, delay=delay, by=by)
        return self._portal.run(call, "app.move")

    @awaited("app")
    async def delete(self, where: Where, *, by: str | None = None) -> Answers:
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
            "delete",
            where,
            lambda step: self._store.delete(step.ids),
            told=lambda done: JobsDeleted(by=operator, ids=_ids(done)),
        )

    def delete_sync(self, where: Where, *, by: str | None = None) -> Answers:
        """
        Do what `delete` does, from synchronous code.

            >>> from rowlock import App
            >>> [str(answer) for answer in App("sqlite://").delete_sync(17)]
            ['not found']
        """
        return self._portal.run(self.delete(where, by=by), "app.delete")

    @awaited("app")
    async def preview(self, verb: VerbName, where: Where) -> Preview:
        """
        Tell which jobs a verb would take, and change nothing.

        `verb` is `cancel`, `replay`, `move` or `delete`. All are counted; of 500, from
        the newest to the oldest, it is told which statuses, tasks and errors they have.

        Raises:
            UsageError: the filter is empty, or asks for what the verb never takes.

            >>> import asyncio
            >>> from rowlock import App, Filter
            >>> asyncio.run(App("sqlite://").preview("replay", Filter(all=True))).count
            0
        """
        await self._store.open()
        chosen = await choose(self._store, where, verb)
        # Of named ids each is read, or what can't be taken would be counted.
        apart = -(-len(chosen.ids) // SAMPLE) if isinstance(where, Filter) else 1
        looked_at = chosen.ids[:: max(apart, 1)]
        jobs = [
            job
            for start in range(0, len(looked_at), SAMPLE)
            for job in await self._store.get(looked_at[start : start + SAMPLE])
            if job.status in TAKES[verb]
        ]
        groups = Counter((job.status, job.task, error_of(job)) for job in jobs)
        return Preview(
            verb=verb,
            count=len(chosen.ids) if isinstance(where, Filter) else len(jobs),
            sampled=len(jobs),
            groups=tuple(
                PreviewGroup(jobs=count, status=status, task=task, last_error=error)
                for (status, task, error), count in groups.most_common()
            ),
            is_cut=chosen.is_cut,
        )

    def preview_sync(self, verb: VerbName, where: Where) -> Preview:
        """
        Do what `preview` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").preview_sync("delete", [17, 18]).count
            0
        """
        return self._portal.run(self.preview(verb, where), "app.preview")

    async def _each(
        self,
        verb: VerbName,
        where: Where,
        do: Callable[[Step], Awaitable[Sequence[Answer]]],
        *,
        told: Callable[[Sequence[Answer]], Event],
    ) -> Answers:
        """
        Do it step by step; `told` makes a step's event of what was done.

        The newest go first: of several with one key the newest is put back, in
        whichever step the others are.
        """
        await self._store.open()
        chosen = await choose(self._store, where, verb)
        ids = sorted(set(chosen.ids), reverse=True)
        answers: dict[int, Answer] = {}
        for start in range(0, len(ids), STEP):
            told_of = await do(Step(ids[start : start + STEP], of=len(ids)))
            if done := [answer for answer in told_of if answer.done]:
                self._extensions.emit(told(done))
            answers.update((answer.job_id, answer) for answer in told_of)
        return Answers((answers[i] for i in chosen.ids), is_cut=chosen.is_cut)


def _replayed(done: Sequence[Answer], *, by: str, to_queue: str | None) -> JobsReplayed:
    from rowlock._events.operators import JobsReplayed

    return JobsReplayed(by=by, ids=_ids(done), to_queue=to_queue)


def _ids(answers: Iterable[Answer]) -> tuple[int, ...]:
    return tuple(sorted(answer.job_id for answer in answers))
