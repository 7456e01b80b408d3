"""The three ways in: what surrounds an attempt, what hears of it, what follows it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

from rowlock import App, Attempt, Filter, NewJob, Snooze, Status, current_attempt
from rowlock._store import Demand
from rowlock.events import (
    AttemptSucceeded,
    Ending,
    Event,
    JobEnqueued,
    JobsCancelled,
    JobsDeleted,
    JobsMoved,
    JobsReplayed,
    OperatorEvent,
    PauseBegan,
    PauseEnded,
)
from rowlock.testing import FakeClock
from tests.endings import ended, known, rested
from tests.eventually import eventually

Around = Callable[[Attempt], AbstractAsyncContextManager[object]]

request_id: ContextVar[str] = ContextVar("request_id", default="none")


def noted(story: list[str], name: str) -> Around:
    @asynccontextmanager
    async def around(attempt: Attempt) -> AsyncIterator[None]:
        assert current_attempt() is attempt
        story.append(f"{name} begins")
        try:
            yield
        except KeyError as error:
            story.append(f"{name} sees {error!r}")
            raise
        finally:
            story.append(f"{name} ends")

    return around


@pytest.fixture(params=["async", "plain"])
def add_task(request: pytest.FixtureRequest, app: App) -> Callable[..., Any]:
    """Add a task of either kind that does what a plain function does."""

    def add(function: Callable[[], object]) -> Any:  # noqa: ANN401 - either kind
        if request.param == "plain":
            return app.task(name="it", max_attempts=1)(function)

        async def it() -> object:
            return function()

        return app.task(max_attempts=1)(it)

    return add


async def test_what_surrounds_an_attempt_is_entered_in_order(
    app: App, add_task: Callable[..., Any]
) -> None:
    story: list[str] = []
    app.around(noted(story, "outer"))
    app.around(noted(story, "inner"))
    it = add_task(lambda: story.append("handler"))

    async with app.worker():
        assert (await ended(app, await it.enqueue())).status is Status.SUCCEEDED

    assert story == [
        "outer begins",
        "inner begins",
        "handler",
        "inner ends",
        "outer ends",
    ]


async def test_a_handlers_exception_passes_through_and_is_recorded(
    app: App, add_task: Callable[..., Any]
) -> None:
    story: list[str] = []
    app.around(noted(story, "around"))

    def fail() -> None:
        raise KeyError(17)

    it = add_task(fail)
    async with app.worker():
        job = await ended(app, await it.enqueue())

    assert story == ["around begins", "around sees KeyError(17)", "around ends"]
    assert job.last_error == "KeyError: 17"
    trace = str(job.errors[-1]["traceback"])
    assert "in fail" in trace
    assert "_worker" not in trace


@asynccontextmanager
async def refuse(attempt: Attempt) -> AsyncIterator[None]:
    msg = f"{attempt.task} may not run"
    raise PermissionError(msg)
    yield


@asynccontextmanager
async def later(_: Attempt) -> AsyncIterator[None]:
    try:
        yield
    except ConnectionError:
        raise Snooze(60) from None


@asynccontextmanager
async def swallow(_: Attempt) -> AsyncIterator[None]:
    with suppress(ConnectionError):
        yield


async def test_what_surrounds_may_fail_replace_and_swallow(
    app: App, add_task: Callable[..., Any]
) -> None:
    ran: list[int] = []

    def fail() -> str:
        ran.append(1)
        raise ConnectionError

    it = add_task(fail)
    jobs = []
    async with app.worker():
        for around in (refuse, later, swallow):
            stop = app.around(around)
            jobs.append(await rested(app, await it.enqueue()))
            stop()

    refused, postponed, swallowed = jobs
    assert refused.last_error == "PermissionError: it may not run"
    assert (postponed.status, postponed.failures) == (Status.PENDING, 0)
    assert (swallowed.status, swallowed.result) == (Status.SUCCEEDED, None)
    assert len(ran) == 2


async def test_a_handler_sees_the_context_that_surrounds_it(
    app: App, add_task: Callable[..., Any]
) -> None:
    @asynccontextmanager
    async def named(attempt: Attempt) -> AsyncIterator[None]:
        token = request_id.set(f"job {attempt.job_id}")
        yield
        request_id.reset(token)

    app.around(named)
    it = add_task(lambda: request_id.get())  # noqa: PLW0108 - a task is a function

    async with app.worker():
        job_id = known(await it.enqueue())
        assert (await ended(app, job_id)).result == f"job {job_id}"
    assert request_id.get() == "none"


async def test_a_timeout_ends_a_surrounded_attempt_like_any_other(app: App) -> None:
    story: list[str] = []
    app.around(noted(story, "around"))
    go_on = threading.Event()

    @app.task(timeout=0.05, max_attempts=1)
    def plain() -> None:
        go_on.wait(10)

    @app.task(timeout=0.05, max_attempts=1)
    async def quick() -> None:
        await asyncio.sleep(60)  # until it is cancelled

    async with app.worker():
        jobs = [await plain.enqueue(), await quick.enqueue()]
        errors = [(await ended(app, job_id)).last_error for job_id in jobs]
        go_on.set()
        # What surrounds a thread ends with it, not with its timeout.
        await eventually(lambda: story.count("around ends") == 2)

    assert {str(error).partition(":")[0] for error in errors} == {"TimeoutError"}


@pytest.fixture
def endings(app: App) -> list[Ending]:
    """What was followed; an audit follows each job that is over."""
    endings: list[Ending] = []

    @app.task(queue="audit")
    def audit(job_id: int, status: str) -> None: ...

    def followed(ending: Ending) -> Iterable[NewJob]:
        endings.append(ending)
        if ending.status is not Status.PENDING:
            yield audit.job(ending.job_id, ending.status.value)

    app.follow(followed)
    return endings


async def test_jobs_follow_how_an_attempt_ended(
    app: App, clock: FakeClock, told: list[Event], endings: list[Ending]
) -> None:
    @app.task(max_attempts=2, backoff=1)
    async def work(how: str) -> str:
        if how == "fails":
            raise ValueError(how)
        if how == "snoozes" and current_attempt().number == 1:
            raise Snooze(1)
        return how

    async with app.worker(queues=["default"]):
        ids = [known(await work.enqueue(how)) for how in ("works", "fails", "snoozes")]
        for job_id in ids:
            await rested(app, job_id)
        clock.advance(60)
        for job_id in ids:
            await ended(app, job_id)

    jobs = (await app.list(Filter(task="audit"))).jobs
    assert sorted((job.payload["job_id"], job.payload["status"]) for job in jobs) == [
        (ids[0], "succeeded"),
        (ids[1], "failed"),
        (ids[2], "succeeded"),
    ]
    by_job = {(ending.job_id, ending.attempt): ending for ending in endings}
    assert by_job[ids[0], 1].result == "works"
    assert by_job[ids[1], 1].status is Status.PENDING
    assert by_job[ids[1], 1].error == "ValueError: fails"
    assert (by_job[ids[1], 2].failed, by_job[ids[1], 2].lost) == (True, False)
    assert by_job[ids[2], 1].error is None
    assert "works" not in repr(by_job[ids[0], 1])
    spawned = [
        e.job_id for e in told if isinstance(e, JobEnqueued) if e.task == "audit"
    ]
    assert sorted(spawned) == sorted(job.id for job in jobs)


async def test_what_followed_does_so_no_more_once_that_was_ended(app: App) -> None:
    @app.task
    async def work() -> None: ...

    stop = app.follow(lambda _: [work.options(delay=3600).job()])
    async with app.worker():
        await ended(app, await work.enqueue())
        stop()
        stop()  # does nothing
        await ended(app, await work.enqueue())

    assert len((await app.list()).jobs) == 3


async def test_jobs_follow_the_loss_of_a_worker(app: App, clock: FakeClock) -> None:
    lost: list[Ending] = []

    @app.task(max_attempts=1)
    async def work() -> None: ...

    @app.task(queue="audit")
    def audit() -> None: ...

    def followed(ending: Ending) -> list[NewJob]:
        lost.append(ending)
        return [audit.job()]

    app.follow(followed)
    await work.enqueue()
    demand = Demand(total=1, tasks=frozenset({"work"}))
    await app._store.claim(demand, worker="w-dead", lease=timedelta(seconds=1))
    clock.advance(2)
    # Connected writing for one lease is the grace that comes before a recovery.
    for _ in range(20):
        await app._store.renew((), worker="w-alive", lease=timedelta(seconds=1))
        clock.advance(0.2)
    async with app.worker(lease=1, queues=["default"]):
        await eventually(lambda: bool(lost), within=20)
        await ended(app, 1)

    assert (lost[0].lost, lost[0].status) == (True, Status.FAILED)
    assert [job.task for job in (await app.list()).jobs] == ["audit", "work"]


@pytest.mark.parametrize("broken", ["raises", "returns no job", "returns nothing"])
async def test_what_follows_badly_harms_no_outcome(
    app: App, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def work() -> None: ...

    def followed(_: Ending) -> Any:  # noqa: ANN401 - what is refused
        if broken == "raises":
            raise ZeroDivisionError
        return ["x"] if broken == "returns no job" else None

    app.follow(followed)
    async with app.worker():
        job = await ended(app, await work.enqueue())

    assert job.status is Status.SUCCEEDED
    assert f"Nothing follows job {job.id}" in caplog.text
    assert len((await app.list()).jobs) == 1


async def test_events_are_told_in_the_thread_where_they_happen(app: App) -> None:
    threads: dict[str, set[str]] = {}

    def hear(event: Event) -> None:
        threads.setdefault(event.name, set()).add(threading.current_thread().name)

    app.listen(hear)

    @app.task
    def plain() -> None:
        plain_thread.append(threading.current_thread().name)

    plain_thread: list[str] = []
    async with app.worker():
        job_id = await plain.enqueue()
        await ended(app, job_id)
        await asyncio.to_thread(app.pause_sync, queue="mail")
        await eventually(lambda: AttemptSucceeded.name in threads)

    here = threading.current_thread().name
    assert threads["job.enqueued"] == {here}
    assert threads["attempt.started"] == threads["attempt.succeeded"] == {here}
    assert threads["pause.began"] == {"rowlock-sync"}
    assert plain_thread != [here]


async def test_what_operators_do_is_told(app: App, told: list[Event]) -> None:
    @app.task
    async def work() -> None: ...

    first, second = known(await work.enqueue()), known(await work.enqueue())
    await app.move([first, 999], queue="other", priority=5, delay=60, by="ada")
    await app.cancel([first, second], by="ada")
    await app.cancel(first, by="ada")  # nothing to do, nothing to tell
    await app.replay(first, by="ada")
    await app.delete(second, by="ada")
    await app.pause(queue="mail", for_=60, reason="down", by="ada")
    await app.resume(queue="mail", by="ada")
    await app.resume(queue="mail", by="ada")

    assert [event for event in told if isinstance(event, OperatorEvent)] == [
        JobsMoved(by="ada", ids=(first,), to_queue="other", priority=5, delay_s=60.0),
        JobsCancelled(by="ada", ids=(first, second), asked=()),
        JobsReplayed(by="ada", ids=(first,)),
        JobsDeleted(by="ada", ids=(second,)),
        PauseBegan(by="ada", queue="mail", task=None, for_s=60.0, reason="down"),
        PauseEnded(by="ada", queue="mail", task=None),
    ]


async def test_a_running_job_that_is_cancelled_was_asked(
    app: App, told: list[Event]
) -> None:
    started = asyncio.Event()

    @app.task
    async def work() -> None:
        started.set()
        await current_attempt().cancelled

    async with app.worker(lease=1):
        job_id = known(await work.enqueue())
        await started.wait()
        await app.cancel(job_id, by="ada")
        await ended(app, job_id)

    (event,) = (event for event in told if isinstance(event, JobsCancelled))
    assert (event.ids, event.asked) == ((), (job_id,))
