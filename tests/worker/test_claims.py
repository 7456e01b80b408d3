"""Which jobs a worker takes, in which order, how many, and when."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from rowlock import App, Status
from rowlock._store import Pause
from rowlock.testing import FakeClock
from tests.endings import all_over, ended, known, reached
from tests.eventually import eventually
from tests.holding import Hold


async def test_jobs_start_by_priority_then_due_time_then_id(
    app: App, clock: FakeClock
) -> None:
    started: list[str] = []

    @app.task
    async def note(name: str) -> None:
        started.append(name)

    await note.options(priority=-1).enqueue(name="least, first")
    await note.options(delay=20).enqueue(name="due later")
    await note.options(delay=10).enqueue(name="due sooner")
    await note.options(delay=10).enqueue(name="due as soon, enqueued later")
    await note.options(priority=7, delay=30).enqueue(name="most, last")
    clock.advance(60)

    async with app.worker(concurrency=1):
        await all_over(app)

    assert started == [
        "most, last",
        "due sooner",
        "due as soon, enqueued later",
        "due later",
        "least, first",
    ]


async def test_no_more_than_concurrency_run_at_once_and_none_is_hoarded(
    app: App,
) -> None:
    running, most = 0, 0
    gate = asyncio.Event()

    @app.task
    async def wait() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    ids = await app.enqueue_many(wait.job() for _ in range(12))

    async with app.worker(concurrency=3):
        await eventually(lambda: running == 3)
        jobs = [await app.get(known(job_id)) for job_id in ids]
        assert [job.status for job in jobs] == [
            *[Status.RUNNING] * 3,
            *[Status.PENDING] * 9,
        ]
        gate.set()
        await all_over(app)

    assert most == 3


async def test_an_idle_worker_starts_a_lone_job_at_once(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    async with app.worker():
        await ended(app, await greet.enqueue())
        # By now it sleeps, for as long as its safety interval of 30 s if need be.
        job_id = await greet.enqueue()
        await ended(app, job_id, within=1)


async def test_a_deferred_job_starts_when_it_is_due_and_not_before(
    app: App, clock: FakeClock
) -> None:
    @app.task
    async def greet() -> None: ...

    job_id = await greet.options(delay=60).enqueue()

    async with app.worker():
        clock.advance(59)
        await ended(app, await greet.enqueue())
        assert (await app.get(known(job_id))).claims == 0
        clock.advance(1)
        await ended(app, job_id, within=1)


async def test_a_worker_leaves_the_queues_it_isnt_for_untouched(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    foreign = await greet.options(queue="foreign", priority=100).enqueue()
    own = await greet.options(queue="own").enqueue()

    async with app.worker(queues=["own"]):
        await ended(app, own)

    job = await app.get(known(foreign))
    assert (job.status, job.claims, job.attempts) == (Status.PENDING, 0, 0)


async def test_law_16_a_job_of_an_unknown_task_waits_for_a_worker_that_has_it(
    app: App, database_url: str, clock: FakeClock
) -> None:
    @app.task
    async def old() -> None: ...

    async with App(database_url, clock=clock) as newer:

        @newer.task
        async def new() -> None: ...

        unknown = await new.options(priority=100).enqueue()
        async with app.worker():
            await ended(app, await old.enqueue())
        job = await app.get(known(unknown))
        assert (job.status, job.claims, job.attempts) == (Status.PENDING, 0, 0)

        async with newer.worker():
            await ended(newer, unknown)


async def test_a_payload_that_doesnt_fit_fails_that_job_alone(
    app: App, database_url: str, clock: FakeClock
) -> None:
    greeted: list[str] = []

    @app.task(max_attempts=1)
    async def greet(name: str) -> None:
        greeted.append(name)

    async with App(database_url, clock=clock) as other:

        @other.task(name="greet", max_attempts=1)
        async def greet_by_number(number: int) -> None: ...

        misfit = await greet_by_number.enqueue(number=1)

    ids = await app.enqueue_many(greet.job(name=name) for name in "abc")
    async with app.worker():
        jobs = [await ended(app, job_id) for job_id in ids]
        failed = await reached(app, misfit, Status.FAILED)

    assert [job.status for job in jobs] == [Status.SUCCEEDED] * 3
    assert sorted(greeted) == ["a", "b", "c"]
    assert failed.last_error is not None
    assert failed.last_error.startswith("PayloadError: `$.number` doesn't fit")


async def test_a_job_that_comes_too_late_is_cancelled_soon_and_never_runs(
    app: App, clock: FakeClock
) -> None:
    started: list[str] = []

    @app.task
    async def note(name: str) -> None:
        started.append(name)

    soon = clock.now() + timedelta(seconds=10)
    async with app.worker(lease=1):
        await ended(app, await note.enqueue(name="in time"))
        late = note.options(queue="paused", expires_at=soon)
        await app._store.pause(Pause(queue="paused"))
        job_id = await late.enqueue(name="late")
        clock.advance(10)
        # Long before the next pruning, which is hourly.
        job = await ended(app, job_id)

    assert (job.status, job.claims) == (Status.CANCELLED, 0)
    assert started == ["in time"]


async def test_a_job_cancelled_before_its_start_never_runs(app: App) -> None:
    started: list[str] = []

    @app.task
    async def note(name: str) -> None:
        started.append(name)

    cancelled = await note.enqueue(name="cancelled")
    kept = await note.enqueue(name="kept")
    (answer,) = await app.cancel(known(cancelled))
    assert str(answer) == "done"

    async with app.worker():
        await ended(app, kept)

    job = await app.get(known(cancelled))
    assert (job.status, job.claims) == (Status.CANCELLED, 0)
    assert started == ["kept"]


async def test_a_claim_that_arrives_during_the_stop_is_given_back_unstarted(
    app: App, clock: FakeClock, hold_writes: Hold
) -> None:
    started = 0

    @app.task
    async def greet() -> None:
        nonlocal started
        started += 1

    job_id = await greet.options(delay=60).enqueue()
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    await eventually(lambda: is_asleep(worker))

    async with hold_writes():
        clock.advance(60)
        # Awake, it claims, which takes until the lock is let go.
        await eventually(lambda: not is_asleep(worker))
        worker.stop()
    assert await running == 0

    job = await app.get(known(job_id))
    assert (job.status, job.claims, job.attempts) == (Status.PENDING, 1, 0)
    assert job.started_at is None
    assert started == 0


class Deaf:
    """A subscription that no news ever reaches."""

    def __init__(self) -> None:
        self.waits: list[timedelta] = []

    async def wait(self, timeout: timedelta) -> bool:
        """Sleep as long as it may."""
        self.waits.append(timeout)
        await asyncio.sleep(timeout.total_seconds())  # what is measured
        return False

    def close(self) -> None:
        """Do nothing."""


async def test_law_19_without_any_wake_up_a_job_waits_for_the_safety_interval(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = Deaf()
    app = App(database_url, safety_interval=0.2)

    @app.task
    async def greet() -> None: ...

    async with app:
        monkeypatch.setattr(app._store, "wakeups", lambda _: deaf)
        async with app.worker():
            await eventually(lambda: len(deaf.waits) > 1)
            await ended(app, await greet.enqueue(), within=5)

    first, *others = deaf.waits
    # It is in step with nobody who started in the same moment.
    assert timedelta(seconds=0.1) <= first <= timedelta(seconds=0.2)
    assert set(others) == {timedelta(seconds=0.2)}


def is_asleep(worker: object) -> bool:
    """Tell whether its fetch loop sleeps; nothing outside shows it."""
    fetch = getattr(worker, "_fetch", None)
    return fetch is not None and fetch._sleeper is not None
