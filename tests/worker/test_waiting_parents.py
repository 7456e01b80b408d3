"""Handlers that wait for jobs, and hold the places that these need."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeAlias

import pytest

from rowlock import App, Backoff, JobUnfinished, Snooze, Status, Task, current_attempt
from tests.endings import ended, finished, known

PARENTS = 4

Child: TypeAlias = Task[[int], Coroutine[Any, Any, int]]


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    """An app on the machine's own clock, as what is waited for takes its time."""
    async with App(database_url) as app:
        yield app


@pytest.fixture
def runs() -> Counter[int]:
    """How often a child of each parent ran."""
    return Counter()


@pytest.fixture
def child(app: App, runs: Counter[int]) -> Child:
    """A task whose jobs are waited for."""

    @app.task
    async def child(of: int) -> int:
        runs[of] += 1
        return of

    return child


async def child_of_mine(app: App, child: Child) -> int:
    """Enqueue a child once a parent, whichever attempt of it this is."""
    parent = current_attempt().job_id
    if (found := await app.find(child, f"{parent}")) is not None:
        return found.id
    keyed = child.options(idempotency_key=f"{parent}")
    return known(await keyed.enqueue(parent))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if "keeps its place" in record.getMessage()
    ]


async def test_b110_parents_that_wait_time_out_give_their_places_back_and_all_finish(
    app: App,
    child: Child,
    runs: Counter[int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    @app.task(max_attempts=9, backoff=Backoff.fixed(0.3))
    async def parent() -> object:
        return (await app.wait(await child_of_mine(app, child), timeout=0.3)).result

    ids = await app.enqueue_many(parent.job() for _ in range(PARENTS))
    with caplog.at_level(logging.WARNING, "rowlock"):
        async with app.worker(concurrency=2):
            jobs = await finished(app, ids)

    assert [(job.status, job.result) for job in jobs] == [
        (Status.SUCCEEDED, job.id) for job in jobs
    ]
    assert runs == dict.fromkeys(ids, 1)
    assert {job.losses for job in jobs} == {0}
    # It is what the case is about: some met a child that had no place.
    assert sum(job.failures for job in jobs) >= 2
    assert {
        str(error["type"]).rpartition(".")[2] for job in jobs for error in job.errors
    } == {JobUnfinished.__name__}
    # Once, however many waited, and with what to do.
    (told,) = warnings_of(caplog)
    assert "The handler of parent waits for job " in told
    assert "(child), and keeps its place" in told
    assert "Raise Snooze" in told
    assert "`--queue default=N`" in told


async def test_b110_a_plain_handler_that_waits_is_warned_of_too(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def slow() -> int:
        await asyncio.sleep(0.3)  # longer than a first look takes
        return 1

    @app.task
    def plain() -> object:
        return app.wait_sync(slow.enqueue_sync(), timeout=20).result

    with caplog.at_level(logging.WARNING, "rowlock"):
        async with app.worker():
            job = await ended(app, await plain.enqueue())

    assert job.result == 1
    (told,) = warnings_of(caplog)
    assert told.startswith("The handler of plain waits for job ")


async def test_b110_a_bound_on_the_parents_queue_leaves_places_for_the_children(
    app: App,
    child: Child,
    runs: Counter[int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    @app.task(queue="parents", max_attempts=1)
    async def parent() -> object:
        return (await app.wait(await child_of_mine(app, child), timeout=20)).result

    ids = await app.enqueue_many(parent.job() for _ in range(PARENTS))
    with caplog.at_level(logging.WARNING, "rowlock"):
        queues = {"parents": 1, "default": None}
        async with app.worker(concurrency=2, queues=queues):
            jobs = await finished(app, ids)

    assert {(job.status, job.attempts) for job in jobs} == {(Status.SUCCEEDED, 1)}
    assert runs == dict.fromkeys(ids, 1)
    assert warnings_of(caplog) == []


async def test_b110_parents_that_snooze_hold_no_place(
    app: App, child: Child, runs: Counter[int]
) -> None:
    @app.task(max_attempts=1)
    async def parent() -> object:
        found = await app.get(await child_of_mine(app, child))
        if not found.status.is_final:
            raise Snooze(0.2)
        return found.result

    ids = await app.enqueue_many(parent.job() for _ in range(PARENTS))
    async with app.worker(concurrency=2):
        jobs = await finished(app, ids)

    assert {(job.status, job.failures) for job in jobs} == {(Status.SUCCEEDED, 0)}
    assert runs == dict.fromkeys(ids, 1)


async def test_b110_a_child_of_another_queue_that_doesnt_start_is_warned_of_later(
    app: App, child: Child, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(queue="parents", max_attempts=1)
    async def parent() -> object:
        return (await app.wait(await child_of_mine(app, child), timeout=3)).result

    with caplog.at_level(logging.WARNING, "rowlock"):
        async with app.worker(concurrency=1):
            job_id = await parent.enqueue()
            await asyncio.sleep(1)  # in which there is nothing to be said
            assert warnings_of(caplog) == []
            job = await ended(app, job_id)

    assert job.status is Status.FAILED
    assert len(warnings_of(caplog)) == 1
