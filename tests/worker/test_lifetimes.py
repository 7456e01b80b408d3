"""Workers that begin and end: one after the other, side by side, broken off."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from rowlock import App, ConfigError, Retention, Status, UsageError
from rowlock._worker import presence
from rowlock.testing import FakeClock
from tests.endings import all_over, ended, known
from tests.eventually import eventually


async def test_workers_of_one_app_follow_each_other(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    for _ in range(2):
        async with app.worker():
            await ended(app, await greet.enqueue())


async def test_two_workers_of_one_app_share_the_work(app: App) -> None:
    runs: list[int] = []
    gate = asyncio.Event()

    @app.task
    async def wait(number: int) -> None:
        runs.append(number)
        await gate.wait()

    async with app.worker(concurrency=2) as one, app.worker(concurrency=2) as two:
        ids = await app.enqueue_many(wait.job(number=n) for n in range(4))
        await eventually(lambda: len(runs) == 4)
        owners = [(await app.get(known(job_id))).worker for job_id in ids]
        gate.set()
        await all_over(app)

    assert sorted(owners, key=str) == sorted([one.id, one.id, two.id, two.id])
    assert sorted(runs) == [0, 1, 2, 3]


async def test_a_worker_object_works_once_and_says_so(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    worker = app.worker()
    async with worker:
        with pytest.raises(UsageError, match=r"once: make another with app\.worker"):
            await worker.run()
        await ended(app, await greet.enqueue())

    with pytest.raises(UsageError, match=r"once: make another with app\.worker"):
        async with worker:
            pass


async def test_a_worker_that_was_forgotten_registers_again(
    app: App, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "REGISTER_PAUSE_S", 0.01)

    @app.task
    async def greet() -> None: ...

    async def is_known() -> bool:
        return [live.id for live in (await app.stats()).workers] == [worker.id]

    async with app.worker() as worker:
        clock.advance(timedelta(days=2))
        await app._store.prune(Retention(), limit=1)
        await eventually(is_known)


async def test_a_worker_without_tasks_is_refused(app: App) -> None:
    with pytest.raises(ConfigError, match="has no tasks"):
        async with app.worker():
            pass


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": True},
        {"lease": 0.5},
        {"shutdown_timeout": -1},
        {"queues": ["q", ""]},
        {"queues": []},
        {"queues": "mail"},
    ],
)
async def test_a_worker_with_wrong_settings_is_refused(
    app: App, options: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(options))}="):
        app.worker(**options)  # type: ignore[arg-type]  # what is refused


async def test_an_error_in_the_block_stops_the_worker_and_comes_out(app: App) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait() -> None:
        await gate.wait()

    worker = app.worker(shutdown_timeout=0.3)
    job_id = None
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - it comes out of the block
        async with worker:
            job_id = await wait.enqueue()
            await eventually(lambda: len(worker._runs) == 1)
            raise ZeroDivisionError

    job = await app.get(known(job_id))
    assert (job.status, job.failures) == (Status.PENDING, 0)


async def test_a_start_that_is_broken_off_leaves_no_worker_behind(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    before = asyncio.all_tasks()
    for steps in range(12):
        worker = app.worker(shutdown_timeout=0.3)
        entering = asyncio.create_task(worker.__aenter__())
        for _ in range(steps):
            await asyncio.sleep(0)
        entering.cancel()
        try:
            await entering
        except asyncio.CancelledError:
            # A store's call that was under way goes on to its end.
            await eventually(
                lambda: asyncio.all_tasks() == before,
                what=f"broken off after {steps} steps",
            )
        else:
            await worker.__aexit__(None, None, None)


async def test_a_start_that_is_broken_off_is_told_as_nothing_else(
    tmp_path: Path,
) -> None:
    app = App(f"sqlite:///{tmp_path}/missing/jobs.db")

    @app.task
    async def greet() -> None: ...

    entering = asyncio.create_task(app.worker().__aenter__())
    await asyncio.sleep(0)  # until it has begun to open what isn't there
    entering.cancel()

    with pytest.raises(asyncio.CancelledError):
        await entering


def test_an_app_serves_one_event_loop_after_the_other(database_url: str) -> None:
    app = App(database_url)
    runs: list[int] = []

    @app.task
    async def note(number: int) -> None:
        runs.append(number)

    async def live(number: int) -> None:
        async with app.worker():
            await ended(app, await note.enqueue(number=number))

    for number in range(3):
        asyncio.run(live(number))
    assert note.enqueue_sync(number=3) is not None
    asyncio.run(live(4))
    app.close_sync()

    assert sorted(runs) == [0, 1, 2, 3, 4]
