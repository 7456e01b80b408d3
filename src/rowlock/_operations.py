"""
What an operator does to jobs, from Python: look, cancel, replay, count.

Verbs on many jobs answer per id, and go in steps so that none holds the store up.
"""

from __future__ import annotations

import getpass
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from rowlock._codec import printable
from rowlock._errors import JobNotFound, UsageError
from rowlock._job import Job, check_id
from rowlock._options import check_count, check_name
from rowlock._store import Answer, Filter, Page, Stats, Store
from rowlock._sync import Portal

Where: TypeAlias = int | Iterable[int] | Filter

STEP = 1000


class Operations:
    """The operators' verbs of an app."""

    store: Store
    portal: Portal

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
        await self.store.open()
        jobs = await self.store.get([job_id])
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
        return self.portal.run(self.get(job_id), "app.get")

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
        await self.store.open()
        return await self.store.list(where or Filter(), after=after, limit=limit)

    def list_sync(
        self, where: Filter | None = None, *, after: int | None = None, limit: int = 100
    ) -> Page:
        """
        Do what `list` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").list_sync().jobs
            ()
        """
        return self.portal.run(self.list(where, after=after, limit=limit), "app.list")

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
        who = current_user() if by is None else check_name(by, "by=")
        return await self._each(where, lambda ids: self.store.cancel(ids, by=who))

    def cancel_sync(self, where: Where, *, by: str | None = None) -> Sequence[Answer]:
        """
        Do what `cancel` does, from synchronous code.

            >>> from rowlock import App
            >>> [str(answer) for answer in App("sqlite://").cancel_sync([17, 18])]
            ['not found', 'not found']
        """
        return self.portal.run(self.cancel(where, by=by), "app.cancel")

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
        who = current_user() if by is None else check_name(by, "by=")
        return await self._each(where, lambda ids: self.store.replay(ids, by=who))

    def replay_sync(self, where: Where, *, by: str | None = None) -> Sequence[Answer]:
        """
        Do what `replay` does, from synchronous code.

            >>> from rowlock import App
            >>> [str(answer) for answer in App("sqlite://").replay_sync(17)]
            ['not found']
        """
        return self.portal.run(self.replay(where, by=by), "app.replay")

    async def stats(self) -> Stats:
        """
        Count jobs by queue and status, and name the live workers.

            >>> import asyncio
            >>> from rowlock import App
            >>> asyncio.run(App("sqlite://").stats()).queues
            ()
        """
        await self.store.open()
        return await self.store.stats()

    def stats_sync(self) -> Stats:
        """
        Do what `stats` does, from synchronous code.

            >>> from rowlock import App
            >>> App("sqlite://").stats_sync().workers
            ()
        """
        return self.portal.run(self.stats(), "app.stats")

    async def _each(
        self,
        where: Where,
        verb: Callable[[Sequence[int]], Awaitable[Sequence[Answer]]],
    ) -> Sequence[Answer]:
        await self.store.open()
        return [
            answer async for ids in self._steps(where) for answer in await verb(ids)
        ]

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
        while True:
            page = await self.store.list(where, after=after, limit=STEP)
            if page.jobs:
                yield [job.id for job in page.jobs]
            if page.after is None:
                return
            after = page.after


def _each_of(where: int | Iterable[int]) -> Iterable[object]:
    # A text can be iterated too, and isn't meant so.
    if isinstance(where, Iterable) and not isinstance(where, str):
        return where
    return [where]


def current_user() -> str:
    """Name who runs this process, for the story of a job."""
    try:
        return printable(getpass.getuser())
    except (KeyError, OSError, ImportError):  # a container's user may have no name
        return "unknown"
