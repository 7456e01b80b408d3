"""`drain` runs what is due, as a worker would, until nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from rowlock import (
    App,
    Attempt,
    Backoff,
    Filter,
    NewJob,
    Retry,
    Snooze,
    Status,
    Unrecoverable,
    UsageError,
    _outcome,
    current_attempt,
)
from rowlock._store import Demand
from rowlock.events import AttemptSucceeded, Ending, Event
from rowlock.testing import Drained, FakeClock, HandlerFailed, drain, drain_sync


async def test_jobs_run_in_the_order_of_a_worker(app: App) -> None:
    ran: list[int] = []

    @app.task
    async def note(n: int) -> None:
        ran.append(n)

    for n, priority in ((1, 0), (2, 5), (3, 0)):
        await note.options(priority=priority).enqueue(n)

    drained = await drain(app)

    assert ran == [2, 1, 3]
    assert (drained.succeeded, len(drained.ran)) == (3, 3)
    assert (await app.stats()).queues[0].counts[Status.SUCCEEDED] == 3


async def test_what_jobs_enqueue_spawn_and_are_followed_by_is_run(app: App) -> None:
    ran: list[str] = []

    @app.task
    async def parent() -> None:
        current_attempt().spawn(child.job("spawned"))
        await child.enqueue("enqueued")

    @app.task
    def child(how: str) -> None:  # a plain function, in a thread
        ran.append(how)

    def follow(ending: Ending) -> list[NewJob]:
        return [child.job("followed")] if ending.task == "parent" else []

    app.follow(follow)
    await parent.enqueue()

    drained = await drain(app)

    assert sorted(ran) == ["enqueued", "followed", "spawned"]
    assert drained.succeeded == 4


async def test_what_a_handler_raises_is_raised_and_the_job_is_tried_again(
    app: App, clock: FakeClock
) -> None:
    error = LookupError("no such order")

    @app.task(backoff=[60])
    async def ship() -> None:
        if current_attempt().is_last:
            return
        raise error

    job_id = await ship.enqueue()
    await ship.enqueue()

    with pytest.raises(LookupError) as raised:
        await drain(app)

    assert raised.value is error
    assert error.__notes__ == [
        f"In attempt 1 of job {job_id}, task 'ship'; the job is due again later."
    ]
    job = await app.get(job_id or 0)
    assert (job.status, job.failures) == (Status.PENDING, 1)
    assert job.run_at - clock.now() >= timedelta(seconds=60)
    assert "testing" not in str(job.errors[0]["traceback"])


async def test_failures_are_collected_where_they_are_not_raised(app: App) -> None:
    @app.task
    async def steer(how: str) -> None:
        raise {
            "fail": LookupError("again"),
            "retry": Retry(delay=60),
            "snooze": Snooze(60),
            "dead": Unrecoverable("never"),
        }[how]

    for how in ("fail", "retry", "snooze", "dead"):
        await steer.enqueue(how)

    drained = await drain(app, raises=False)

    assert (drained.retried, drained.snoozed, drained.failed) == (2, 1, 1)
    assert [type(each) for each in drained.errors] == [
        LookupError,
        Retry,
        Unrecoverable,
    ]
    assert [ran.run_at is None for ran in drained.ran] == [False, False, False, True]


async def test_signals_that_steer_are_no_errors_and_a_dead_letter_is(app: App) -> None:
    @app.task(max_attempts=2)
    async def poll() -> None:
        raise Snooze(1) if current_attempt().number == 1 else Retry(delay=1)

    await poll.enqueue()

    drained = await drain(app, advance=1)
    assert (drained.snoozed, drained.retried) == (1, 1)
    with pytest.raises(Retry):
        await drain(app, advance=1)


async def test_time_is_let_pass_from_one_due_job_to_the_next(
    app: App, clock: FakeClock
) -> None:
    began, seen = clock.now(), list[float]()

    @app.task(backoff=Backoff.steps([10, 20], jitter=0))
    async def note() -> None:
        seen.append((clock.now() - began).total_seconds())
        if not current_attempt().is_last:
            raise LookupError

    await note.options(delay=100).enqueue()
    real = time.monotonic()

    drained = await drain(app, advance=timedelta(hours=1), raises=False)

    assert seen == pytest.approx([100, 110, 130])
    assert (drained.retried, drained.succeeded) == (2, 1)
    assert clock.now() == began + timedelta(hours=1)
    assert time.monotonic() - real < 30


async def test_what_is_planned_for_later_stays(app: App, clock: FakeClock) -> None:
    @app.task
    async def note() -> None: ...

    await note.options(delay=61).enqueue()

    assert not (await drain(app)).ran
    assert not (await drain(app, advance=60)).ran
    clock.advance(1)
    assert (await drain(app)).succeeded == 1


async def test_the_machines_clock_can_not_be_moved(database_url: str) -> None:
    async with App(database_url) as app:
        with pytest.raises(UsageError, match="rowlock_app"):
            await drain(app, advance=1)


async def test_only_the_queues_that_are_named_are_drained(app: App) -> None:
    @app.task
    async def note() -> None: ...

    for queue in ("mail", "other", "mail"):
        await note.options(queue=queue).enqueue()

    drained = await drain(app, queues=["mail"])

    assert [ran.queue for ran in drained.ran] == ["mail", "mail"]


async def test_a_job_whose_worker_was_lost_is_drained_too(app: App) -> None:
    @app.task
    async def note() -> None: ...

    await note.enqueue()
    store = app._store
    demand = Demand(total=1, tasks=frozenset({"note"}))
    await store.claim(demand, worker="dead", lease=timedelta(seconds=60))
    lost = await store.lost(1, worker="dead")
    await store.finish([_outcome.lost(claim) for claim in lost])

    drained = await drain(app)

    assert [(ran.attempt, ran.status) for ran in drained.ran] == [(2, Status.SUCCEEDED)]


async def test_a_paused_queue_is_not_drained(app: App) -> None:
    @app.task
    async def note() -> None: ...

    await note.enqueue()
    await app.pause(queue="default")

    assert await drain(app) == Drained(ran=())


async def test_a_job_that_enqueues_itself_ends_in_an_error(app: App) -> None:
    @app.task
    async def again() -> None:
        await again.enqueue()

    await again.enqueue()

    with pytest.raises(AssertionError, match=r"ran 20 attempts .* were of again"):
        await drain(app, limit=20)

    counts = (await app.stats()).queues[0].counts
    assert (counts[Status.SUCCEEDED], counts[Status.PENDING]) == (20, 1)
    assert not (await app.list(Filter(status=Status.PENDING))).jobs[0].attempts


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_timeout_strikes_and_is_raised(app: App, kind: str) -> None:
    @app.task(timeout=0.05, max_attempts=1)
    async def sleep() -> None:
        await current_attempt().cancelled

    @app.task(timeout=0.05, max_attempts=1)
    def block() -> None:
        current_attempt().cancelled.wait()

    await (sleep if kind == "async" else block).enqueue()

    with pytest.raises(HandlerFailed, match=r"TimeoutError: .* timeout of 0.05 s"):
        await drain(app)


async def test_a_payload_that_does_not_fit_any_more_is_raised(app: App) -> None:
    @app.task
    async def note(n: int) -> None: ...

    await note.enqueue(1)
    del app.tasks["note"]

    @app.task(name="note")
    async def changed(text: str) -> None: ...

    with pytest.raises(HandlerFailed, match="PayloadError"):
        await drain(app)


async def test_around_and_listeners_see_a_drained_attempt(app: App) -> None:
    seen: list[str] = []

    @contextlib.asynccontextmanager
    async def around(attempt: Attempt) -> AsyncIterator[None]:
        seen.append(f"begin {attempt.task}")
        yield
        seen.append("end")

    def listen(event: Event) -> None:
        if isinstance(event, AttemptSucceeded):
            seen.append(event.name)

    app.around(around)
    app.listen(listen)

    @app.task
    def note() -> None:
        current_attempt().checkpoint_sync({"page": 1})
        current_attempt().progress(0.5)

    job_id = await note.enqueue()
    await drain(app)

    assert seen == ["begin note", "end", "attempt.succeeded"]
    job = await app.get(job_id or 0)
    assert job.state == {"page": 1}
    assert job.progress == {"fraction": 0.5, "note": None}


async def test_a_cancelled_drain_gives_its_job_back(app: App) -> None:
    began = asyncio.Event()

    @app.task
    async def sleep() -> None:
        began.set()
        await asyncio.Event().wait()

    job_id = await sleep.enqueue()
    draining = asyncio.create_task(drain(app))
    await began.wait()
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining

    job = await app.get(job_id or 0)
    assert (job.status, job.failures) == (Status.PENDING, 0)


def test_synchronous_code_drains_too(database_url: str, clock: FakeClock) -> None:
    app = App(database_url, clock=clock)
    ran: list[int] = []

    @app.task
    def plain(n: int) -> None:
        ran.append(n)
        if n:
            plain.enqueue_sync(n - 1)

    @app.task
    async def awaited(n: int) -> None:
        ran.append(n)

    plain.enqueue_sync(2)
    awaited.options(delay=5).enqueue_sync(9)

    assert drain_sync(app, advance=5).succeeded == 4
    assert ran == [2, 1, 0, 9]
    app.close_sync()
