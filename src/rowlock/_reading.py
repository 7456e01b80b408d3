"""What anybody may ask of the jobs: one, many, what became of one, how many."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from rowlock._access import Reaching
from rowlock._answers import DeadGroup, Finding, Page, Stats, Why
from rowlock._attempt import the_attempt
from rowlock._awaited import awaited
from rowlock._durations import to_delay
from rowlock._errors import JobNotFound, JobUnfinished, StoreUnavailable
from rowlock._filter import Filter
from rowlock._job import Job, Status, check_id
from rowlock._options import check_count, check_name
from rowlock._task import KeyedTask, check_task

# How often `wait` looks: soon at first, as most jobs are short, then seldom.
FIRST_LOOK_S, LAST_LOOK_S = 0.05, 2.0
# Of one key, where the one that keeps it is no longer the newest.
KEPT_LOOK = 100

# A job that waits for longer may wait for the place of the handler that waits for it.
LONG_PENDING_S = 2.0

WAITS_INSIDE = (
    "The handler of %(task)s waits for job %(job)d (%(waits_for)s), and keeps its place"
    " meanwhile: where such handlers have all places, what they wait for never starts."
    " Raise Snooze and look again with app.get, or bound the queue of %(task)s:"
    " `--queue %(queue)s=N`, with N below --concurrency."
)

logger = logging.getLogger("rowlock")

# How often `why` looks at a job that changes while it looks.
LOOKS = 3


class Reading(Reaching):
    """The questions that an app answers."""

    @awaited("app")
    async def get(self, job_id: int) -> Job:
        """
        Read one job.

        Raises:
            JobNotFound: it was deleted, pruned, or never existed.

            >>> import asyncio
            >>> from rowlock import App
            >>> asyncio.run(App("sqlite://").get(17))
            Traceback (most recent call last):
            ...
            rowlock.JobNotFound: There is no job 17.
        """
        check_id(job_id)
        await self._store.open()
        jobs = await self._store.get([job_id])
        if not jobs:
            raise JobNotFound(job_id)
        return jobs[0]

    def get_sync(self, job_id: int) -> Job:
        """
        Do what `get` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").get_sync(17)
            Traceback (most recent call last):
            ...
            rowlock.JobNotFound: There is no job 17.
        """
        return self._portal.run(self.get(job_id), "app.get")

    @awaited("app")
    async def list(
        self, where: Filter | None = None, *, after: int | None = None, limit: int = 100
    ) -> Page:
        """
        Read the jobs that fit, newest first, a page at a time.

        `after` is what the page before said; its `after` is None at the end.

            >>> import asyncio
            >>> from rowlock import App, Filter, Status
            >>> asyncio.run(App("sqlite://").list(Filter(status=Status.FAILED))).jobs
            ()
        """
        check_count(limit, "limit=")
        if after is not None:
            check_id(after)
        await self._store.open()
        return await self._store.list(where or Filter(), after=after, limit=limit)

    def list_sync(
        self, where: Filter | None = None, *, after: int | None = None, limit: int = 100
    ) -> Page:
        """
        Do what `list` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").list_sync().jobs
            ()
        """
        return self._portal.run(self.list(where, after=after, limit=limit), "app.list")

    @awaited("app")
    async def find(
        self, task: str | KeyedTask[..., Any], idempotency_key: str
    ) -> Job | None:
        """
        Find the job of a task that has this idempotency key.

        Of several it is the one that holds the key, as it is unfinished, or has ended
        and keeps it (`idempotency_for=`); else the newest. None where there is none, or
        none is left.

            >>> import asyncio
            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> greet.options(idempotency_key="Ada").enqueue_sync("Ada")
            1
            >>> app.find_sync(greet, "Ada").status.value
            'pending'
        """
        name, key = check_task(task), check_name(idempotency_key, "idempotency_key=")
        await self._store.open()
        having = Filter(task=name, idempotency_key=key)
        newest = await self._newest(having)
        if newest is None or not newest.status.is_final or newest.key_until:
            return newest
        # An older one may hold the key, where it was replayed after the newest ended.
        for status in (Status.PENDING, Status.RUNNING):
            holder = await self._newest(replace(having, status=status))
            if holder is not None:
                return holder
        kept = await self._store.list(replace(having, status=None), limit=KEPT_LOOK)
        return next((job for job in kept.jobs if job.key_until), newest)

    def find_sync(
        self, task: str | KeyedTask[..., Any], idempotency_key: str
    ) -> Job | None:
        """
        Do what `find` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").find_sync("greet", "Ada")
        """
        return self._portal.run(self.find(task, idempotency_key), "app.find")

    @awaited("app")
    async def wait(self, job_id: int, timeout: float | timedelta) -> Job:
        """
        Wait until a job has finished, however it ended, and read it.

        It looks soon at first, then every 2 s; an outage of the store is waited out.
        `timeout` is in seconds or a `timedelta`, on this machine's clock. A dead letter
        is an end too: look at `.status`, or at `.result` and `.last_error`.

        A handler that waits keeps its place, which the job that it waits for may need:
        that is logged as a warning, once a task.

        Raises:
            JobUnfinished: it hasn't ended within `timeout`; it goes on. A
                `TimeoutError`, too.
            JobNotFound: it was deleted, pruned (a retention of 0 keeps nothing), or
                never existed.
            StoreUnavailable: the store was away when the time was over.

            >>> import asyncio
            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def double(n: int) -> int:
            ...     return 2 * n
            >>> async def main() -> None:
            ...     async with app, app.worker():
            ...         job = await app.wait(await double.enqueue(21), timeout=10)
            ...         print(job.status.value, job.result)
            >>> asyncio.run(main())
            succeeded 42
        """
        import asyncio

        check_id(job_id)
        wait_s = to_delay(timeout, "timeout=").total_seconds()
        began_at, pause_s = time.monotonic(), FIRST_LOOK_S
        until = began_at + wait_s
        while True:
            found: Job | StoreUnavailable
            try:
                found = await self.get(job_id)
            except StoreUnavailable as error:
                found = error
            if isinstance(found, Job):
                if found.status.is_final:
                    return found
                self._warn_waiting_handler(found, time.monotonic() - began_at)
            left_s = until - time.monotonic()
            if left_s <= 0:
                if isinstance(found, Job):
                    raise JobUnfinished(job_id, found.status, wait_s)
                raise found
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, LAST_LOOK_S)

    def _warn_waiting_handler(self, job: Job, waited_s: float) -> None:
        """Warn of a handler that may have the place that a job waits for."""
        attempt = the_attempt()
        if attempt is None or attempt.task in self._access.warned:
            return
        # Of another queue it may be other workers' who have places.
        is_late = job.status is Status.PENDING and waited_s >= LONG_PENDING_S
        if job.queue == attempt.queue or is_late:
            self._access.warned.add(attempt.task)
            told = {"task": attempt.task, "queue": attempt.queue}
            logger.warning(WAITS_INSIDE, told | {"job": job.id, "waits_for": job.task})

    def wait_sync(self, job_id: int, timeout: float | timedelta) -> Job:
        """
        Do what `wait` does, from synchronous code.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> app.wait_sync(greet.enqueue_sync("Ada"), timeout=0)
            Traceback (most recent call last):
            ...
            rowlock.JobUnfinished: Job 1 was still pending after 0 s: wait longer, or \
look at it again with app.get(1).
        """
        return self._portal.run(self.wait(job_id, timeout), "app.wait")

    @awaited("app")
    async def dead(
        self,
        *,
        task: str | KeyedTask[..., Any] | None = None,
        queue: str | None = None,
        limit: int = 100,
    ) -> Sequence[DeadGroup]:
        """
        Group the dead letters by task and error, those last seen newest first.

        Errors are the same where their type and message are, without the numbers, ids,
        addresses and quoted values in them. `Filter(fingerprint=)` has a group's jobs.

            >>> import asyncio
            >>> from rowlock import App
            >>> asyncio.run(App("sqlite://").dead(task="send_receipt"))
            ()
        """
        name = None if task is None else check_task(task)
        of = None if queue is None else check_name(queue, "queue=")
        most = check_count(limit, "limit=")
        await self._store.open()
        return await self._store.dead_letters.groups(task=name, queue=of, limit=most)

    def dead_sync(
        self,
        *,
        task: str | KeyedTask[..., Any] | None = None,
        queue: str | None = None,
        limit: int = 100,
    ) -> Sequence[DeadGroup]:
        """
        Do what `dead` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").dead_sync()
            ()
        """
        call = self.dead(task=task, queue=queue, limit=limit)
        return self._portal.run(call, "app.dead")

    @awaited("app")
    async def stats(self) -> Stats:
        """
        Count jobs by queue and status, and name the live workers.

            >>> import asyncio
            >>> from rowlock import App
            >>> asyncio.run(App("sqlite://").stats()).queues
            ()
        """
        await self._store.open()
        return await self._store.stats()

    def stats_sync(self) -> Stats:
        """
        Do what `stats` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").stats_sync().workers
            ()
        """
        return self._portal.run(self.stats(), "app.stats")

    @awaited("app")
    async def why(self, job_id: int) -> Why:
        """
        Tell in one sentence why a job isn't running, with a word for programs.

        A pending job waits as its queue or task is paused, as it isn't due, as no live
        worker has its task, behind others, as all workers are full, or as those with
        room claim nothing for a suspect's sake; a running one may be kept by its
        handler's transaction; a finished one has ended, and its key may be held by
        another job. It takes no longer where there are many jobs.

        Raises:
            JobNotFound: it was deleted, pruned, or never existed.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> why = app.why_sync(greet.options(delay=40).enqueue_sync("Ada"))
            >>> why.reason, why.sentence
            ('scheduled', 'Job 1 is due in 40 s.')
        """
        from rowlock._why import Circumstances, claimable, holds_key, judge, kept_by

        figures, place, holder, kept = self._store.figures, None, None, None
        for _ in range(LOOKS):
            job, seen = await self.get(job_id), await figures.overview()
            if job.status is Status.RUNNING:
                kept = await kept_by(self._store.lent, job, seen.now)
            if job.status is not Status.PENDING:
                break
            tasks = claimable(job, seen)
            place = await figures.place(job_id, queue=job.queue, tasks=tasks)
            # Without one it was claimed, cancelled or moved since it was read.
            if place is not None:
                break
        if job.status.is_final and job.idempotency_key is not None:
            found = await self.find(job.task, job.idempotency_key)
            if found is not None and found.id != job.id and holds_key(found, seen.now):
                holder = found.id
        return judge(Circumstances(job, seen, place, holder, kept))

    def why_sync(self, job_id: int) -> Why:
        """
        Do what `why` does, from synchronous code.

            >>> from rowlock import App
            >>> app = App("sqlite://")
            >>> @app.task
            ... def greet(name: str) -> None: ...
            >>> job_id = greet.enqueue_sync("Ada")
            >>> app.pause_sync(task=greet)
            >>> app.why_sync(job_id).reason
            'paused'
        """
        return self._portal.run(self.why(job_id), "app.why")

    @awaited("app")
    async def doctor(self) -> Sequence[Finding]:
        """
        Look for what hurts the jobs; what is wrong comes first, what is well last.

        It locks, writes and waits for nothing, needs no schema, and no more than a
        worker's rights: what it can't look at is a finding, too.

        Raises:
            StoreUnavailable: the database is out of reach.

            >>> import asyncio
            >>> from rowlock import App
            >>> found = asyncio.run(App("sqlite://").doctor())
            >>> [finding.what for finding in found if finding.severity == "wrong"]
            []
        """
        return await self._store.doctor.examine()

    def doctor_sync(self) -> Sequence[Finding]:
        """
        Do what `doctor` does, from synchronous code.

            >>> from rowlock import App
            >>> sorted({finding.about for finding in App("sqlite://").doctor_sync()})
            ['schema', 'tasks', 'version']
        """
        return self._portal.run(self.doctor(), "app.doctor")

    async def _newest(self, where: Filter) -> Job | None:
        page = await self._store.list(where, limit=1)
        return page.jobs[0] if page.jobs else None
