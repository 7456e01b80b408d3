"""Cases of the kind *context variables*: whose values a handler sees."""

from __future__ import annotations

import asyncio
import decimal
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context

import pytest

from rowlock import App, Attempt, Status, Task, current_attempt
from rowlock.events import AttemptFilter
from tests.endings import ended, finished, known
from tests.eventually import eventually

SET_BY_APP: ContextVar[str] = ContextVar("set_by_app", default="-")
SET_BY_JOB: ContextVar[str] = ContextVar("set_by_job", default="-")
ON_THREAD = threading.local()

logger = logging.getLogger("shop.contexts")


class Kept(logging.Handler):
    """Keeps what a record says of its attempt, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(AttemptFilter())
        self.told: list[tuple[str, Mapping[str, object]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        names = ("job_id", "task", "queue", "attempt")
        fields = {name: getattr(record, name, None) for name in names}
        self.told.append((record.getMessage(), fields))


@pytest.fixture
def kept() -> Iterator[Kept]:
    """What was logged."""
    handler = Kept()
    logger.addHandler(handler)
    level, logger.level = logger.level, logging.INFO
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def surround(app: App) -> None:
    """Set a variable about each attempt, as tracing does."""

    @app.around
    @asynccontextmanager
    async def trace(attempt: Attempt) -> AsyncIterator[None]:
        SET_BY_APP.set(f"trace-{attempt.job_id}")
        yield


def look(where: str) -> tuple[str, str]:
    """Log, and tell what is seen from here."""
    job_id = current_attempt().job_id
    logger.info("%s of %d", where, job_id)
    return SET_BY_APP.get(), SET_BY_JOB.get()


class Looking:
    """Tasks of 50 jobs each, all at once, that look from wherever a handler can."""

    def __init__(self, app: App) -> None:
        self.seen: dict[int, set[tuple[str, str]]] = {}
        self._together = threading.Barrier(50)
        self._waiting = asyncio.Semaphore(0)
        self.plain: Task[..., object] = app.task(queue="plain", name="plain")(
            self.looks()
        )
        self.on_loop: Task[..., object] = app.task(queue="async", name="on_loop")(
            self.looks_async()
        )

    def _note(self, number: int, *found: tuple[str, str]) -> None:
        self.seen[current_attempt().job_id] = set(found)
        assert {own for _, own in found} == {f"job-{number}"}

    def looks(self) -> Callable[[int], None]:
        def plain(number: int) -> None:
            SET_BY_JOB.set(f"job-{number}")
            self._together.wait(30)
            with ThreadPoolExecutor(1) as pool:
                inner = pool.submit(copy_context().run, look, "pool").result()
            thread = threading.Thread(target=copy_context().run, args=(look, "thread"))
            thread.start()
            thread.join()
            self._note(number, look("handler"), inner)

        return plain

    def looks_async(self) -> Callable[[int], Awaitable[None]]:
        async def inner() -> tuple[str, str]:
            await asyncio.sleep(0)
            return look("task")

        async def on_loop(number: int) -> None:
            SET_BY_JOB.set(f"job-{number}")
            if number == 49:
                for _ in range(50):
                    self._waiting.release()
            await self._waiting.acquire()
            loop, context = asyncio.get_running_loop(), copy_context()
            self._note(
                number,
                look("handler"),
                await asyncio.create_task(inner()),
                await asyncio.to_thread(look, "thread"),
                await loop.run_in_executor(None, context.run, look, "executor"),
            )

        return on_loop


@pytest.mark.parametrize("is_surrounded", [True, False], ids=["surrounded", "bare"])
async def test_b78_100_jobs_at_once_see_their_own_context_and_nobody_elses(
    app: App, kept: Kept, *, is_surrounded: bool
) -> None:
    if is_surrounded:
        surround(app)
    tasks = Looking(app)
    pair = (tasks.plain, tasks.on_loop)
    made = [each.job(number=n) for n in range(50) for each in pair]
    async with app.worker(concurrency=100):
        ids = [known(job_id) for job_id in await app.enqueue_many(made)]
        jobs = await finished(app, ids)

    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert sorted(tasks.seen) == sorted(ids)
    for job_id, found in tasks.seen.items():
        expected = f"trace-{job_id}" if is_surrounded else "-"
        assert {by_app for by_app, _ in found} == {expected}
    # Three records of a plain one, four of the other.
    assert len(kept.told) == 50 * 3 + 50 * 4
    by_id = {job.id: job for job in jobs}
    for text, fields in kept.told:
        job = by_id[int(text.rpartition(" of ")[2])]
        named = {"job_id": job.id, "task": job.task, "queue": job.queue}
        assert fields == {**named, "attempt": 1}


HOWS = ["returns", "raises", "times out", "is cancelled"]


class Changing:
    """A task that changes what it finds and ends as it is told, and one that looks."""

    def __init__(self, app: App, how: str, *, is_async: bool) -> None:
        self.threads: list[int] = []
        self.found: list[tuple[object, ...]] = []
        self.has_left = threading.Event()
        self._how = how
        timeout = 0.1 if how == "times out" else 30
        add = app.task(name="change", max_attempts=1, timeout=timeout)
        self.change = add(self.changes_async()) if is_async else add(self.changes())
        self.look = app.task(name="look")(self.looks(is_async=is_async))

    def _set(self) -> None:
        SET_BY_JOB.set("of the first")
        decimal.getcontext().prec = 3
        self.threads.append(threading.get_ident())
        if self._how == "raises":
            raise ValueError

    def changes(self) -> Callable[[], None]:
        def change() -> None:
            self._set()
            if self._how != "returns":
                current_attempt().cancelled.wait(30)
            self.has_left.set()

        return change

    def changes_async(self) -> Callable[[], Awaitable[None]]:
        async def change() -> None:
            self._set()
            if self._how != "returns":
                await asyncio.Event().wait()

        return change

    def looks(self, *, is_async: bool) -> Callable[[], object]:
        def look() -> None:
            self.found.append((SET_BY_JOB.get(), decimal.getcontext().prec))
            self.threads.append(threading.get_ident())

        async def look_async() -> None:
            look()

        return look_async if is_async else look


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_b79_a_job_finds_no_context_of_the_one_before_it(
    app: App, how: str, *, is_async: bool
) -> None:
    """
    Contexts are copied for each attempt. A thread is used again, and what is local to
    it stays, as in any pool: databases' drivers keep their connections there.
    """
    tasks = Changing(app, how, is_async=is_async)
    async with app.worker(concurrency=1, lease=1):
        job_id = known(await tasks.change.enqueue())
        if how == "is cancelled":
            await eventually(lambda: bool(tasks.threads))
            await app.cancel(job_id)
        await ended(app, job_id)
        if not is_async and how != "raises":
            await asyncio.to_thread(tasks.has_left.wait, 10)
            await asyncio.sleep(0.05)  # until the thread is idle again
        looked = await ended(app, await tasks.look.enqueue())

    assert looked.status is Status.SUCCEEDED
    assert tasks.found == [("-", decimal.DefaultContext.prec)]
    assert SET_BY_JOB.get() == "-"
    # The case is about one that is used again.
    assert len(set(tasks.threads)) == 1


async def test_b79_what_a_thread_keeps_for_itself_stays_with_it(app: App) -> None:
    """What the page on handlers says: clear it, or don't use it."""
    found: list[object] = []

    @app.task
    def work() -> None:
        found.append(getattr(ON_THREAD, "value", None))
        ON_THREAD.value = "kept"

    async with app.worker(concurrency=1):
        for _ in range(2):
            await ended(app, await work.enqueue())

    assert found == [None, "kept"]
