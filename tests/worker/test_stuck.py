"""Handlers that can't be stopped: what each costs, who sees it, what is too much."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from rowlock import App, Status, WorkerInfo
from rowlock.events import AttemptStuck, Event, WorkerDraining, WorkerOverrun
from tests.endings import ended, known
from tests.eventually import eventually


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A connection on which nothing ever comes, until the test is over."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours
        theirs.shutdown(socket.SHUT_RDWR)


async def workers(app: App) -> tuple[WorkerInfo, ...]:
    return (await app.stats()).workers


async def test_b71_threads_stuck_in_system_calls_are_replaced(
    app: App, silent: socket.socket, told: list[Event]
) -> None:
    """Each frees its place at its timeout, up to `max_stuck`; so none holds one."""

    @app.task(timeout=0.1, max_attempts=1)
    def hang() -> None:
        silent.recv(1)

    @app.task
    def greet() -> None: ...

    async with app.worker(concurrency=4, max_stuck=20) as worker:
        bad = [await hang.enqueue() for _ in range(20)]
        began = time.monotonic()
        jobs = [await ended(app, job_id) for job_id in bad]
        for job_id in [await greet.enqueue() for _ in range(20)]:
            assert (await ended(app, job_id)).status is Status.SUCCEEDED
        took = time.monotonic() - began
        health = worker.health()
        silent.shutdown(socket.SHUT_RDWR)
        await eventually(lambda: worker.health().stuck == 0)

    assert {str(job.last_error).split(":")[0] for job in jobs} == {"TimeoutError"}
    assert took < 10
    assert (health.healthy, health.stuck) == (True, 20)
    assert len([event for event in told if isinstance(event, AttemptStuck)]) == 20


async def test_past_the_limit_a_stuck_handler_keeps_its_place_until_it_ends(
    app: App, told: list[Event]
) -> None:
    gates = [threading.Event() for _ in range(3)]

    @app.task(timeout=0.05, max_attempts=1)
    def hang(gate: int) -> None:
        gates[gate].wait(30)

    @app.task
    def greet() -> None: ...

    async with app.worker(concurrency=2, max_stuck=1) as worker:
        for n in range(3):
            await ended(app, await hang.enqueue(n))
        # One is borne, two hold the two places.
        health = worker.health()
        assert not health.healthy
        assert health.reasons == (
            "3 handlers can't be stopped, and 1 may be (max_stuck)",
        )
        waiting = await greet.enqueue()
        await asyncio.sleep(0.2)  # what would be claimed now, mustn't
        assert (await app.get(waiting)).status is Status.PENDING
        gates[0].set()
        await ended(app, waiting)
        gates[1].set()
        await eventually(lambda: worker.health().healthy)
        gates[2].set()

    (overrun,) = [event for event in told if isinstance(event, WorkerOverrun)]
    assert (overrun.stuck, overrun.max_stuck) == (2, 1)


async def test_a_worker_that_is_to_be_replaced_stops_past_the_limit(app: App) -> None:
    gate = threading.Event()

    @app.task(timeout=0.05, max_attempts=1)
    def hang() -> None:
        gate.wait(30)

    worker = app.worker(max_stuck=1)
    running = asyncio.create_task(worker.run(ends_when_overrun=True))
    ids = [await hang.enqueue() for _ in range(2)]
    jobs = [await ended(app, job_id) for job_id in ids]

    async with asyncio.timeout(10):
        # As those that were left behind: whoever runs it ends with 1.
        assert await running == 2
    gate.set()
    assert [job.status for job in jobs] == [Status.FAILED] * 2


async def test_one_that_stopped_past_the_limit_says_so_though_none_is_stuck_any_more(
    app: App, told: list[Event]
) -> None:
    gate = threading.Event()

    @app.task(timeout=0.05, max_attempts=1)
    def hang() -> None:
        gate.wait(30)

    @app.task
    async def wait() -> None:
        await eventually(lambda: gate.is_set() and not worker.health().stuck)

    worker = app.worker(max_stuck=1)
    running = asyncio.create_task(worker.run(ends_when_overrun=True))
    await wait.enqueue()
    for _ in range(2):
        await hang.enqueue()
    await eventually(lambda: any(isinstance(each, WorkerDraining) for each in told))
    gate.set()

    assert await running == 1


async def test_stuck_handlers_are_shown_to_operators_until_they_end(app: App) -> None:
    gate = threading.Event()

    @app.task(timeout=0.05, max_attempts=1)
    def hang() -> None:
        gate.wait(30)

    async with app.worker():
        job_id = known(await hang.enqueue())

        async def shows(stuck: tuple[int, ...]) -> bool:
            return [worker.stuck for worker in await workers(app)] == [stuck]

        await eventually(lambda: shows((job_id,)))
        gate.set()
        await eventually(lambda: shows(()))


async def test_one_that_swallows_its_cancellation_costs_a_place_for_the_grace(
    app: App, told: list[Event]
) -> None:
    gate = asyncio.Event()
    given_up_after: list[float] = []

    @app.task(timeout=0.05, max_attempts=1)
    async def swallow() -> None:
        began = time.monotonic()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                given_up_after.append(time.monotonic() - began)

    @app.task
    async def greet() -> None: ...

    async with app.worker(concurrency=1, cancel_grace=0.3) as worker:
        began = time.monotonic()
        await swallow.enqueue()
        await ended(app, await greet.enqueue())
        took = time.monotonic() - began
        assert worker.health().stuck == 1
        gate.set()
        await eventually(lambda: worker.health().stuck == 0)

    assert len(given_up_after) == 1
    assert 0.3 < took < 3
    assert len([event for event in told if isinstance(event, AttemptStuck)]) == 1
