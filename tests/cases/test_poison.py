"""Cases of the kind *poison pills*: a job that kills the process that runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from rowlock import App, Job, Status
from tests.endings import jobs_of, known
from tests.journal import Journal
from tests.programs import poison
from tests.workers import LEASE_S, WorkerProcess, Workers

pytestmark = pytest.mark.timeout(200)  # many processes start, one after another


async def restarted(
    workers: Workers,
    app: App,
    ids: Sequence[int | None],
    *,
    count: int = 1,
    concurrency: int = 10,
    within: float = 100,
) -> Sequence[Job]:
    """
    Start workers again whenever one has died, until all these jobs are over.

    A worker here, of a queue without jobs, recovers while they start.
    """

    def start(n: int) -> WorkerProcess:
        return workers.launch(
            "poison", f"worker{n}", concurrency=concurrency, safety_interval=1
        )

    async with app.worker(queues=["empty"], lease=LEASE_S), asyncio.timeout(within):
        processes = [start(n) for n in range(count)]
        while True:
            for n, process in enumerate(processes):
                if process.has_died():
                    processes[n] = start(n)
            jobs = await jobs_of(app, ids)
            if all(job.status.is_final for job in jobs):
                return jobs
            await hurry(app, jobs)
            await asyncio.sleep(0.05)  # processes live and die by themselves


async def hurry(app: App, jobs: Sequence[Job]) -> None:
    """Make due what waits for 5 s after its second loss; it stays a suspect."""
    now = datetime.now(UTC)
    waiting = [job.id for job in jobs if job.losses > 1 and job.run_at > now]
    if waiting:
        await app.move(waiting, delay=0)


def check_poison(job: Job) -> None:
    assert (job.status, job.attempts, job.losses) == (Status.FAILED, 3, 3)
    assert job.last_error is not None
    assert job.last_error.startswith("WorkerLost: worker w-")
    # It was found out: the others were not there.
    assert job.last_error.endswith("It ran nothing else.")


def check_innocent(job: Job) -> None:
    assert job.status is Status.SUCCEEDED
    assert job.failures == 0
    assert job.losses <= 1


async def test_b24_a_job_that_kills_its_process_starts_three_times(
    app: App, journal: Journal, workers: Workers
) -> None:
    """A worker of one job at a time runs each alone, so that each loss is charged."""
    poison.register(app, journal)
    deadly = await app.find_task("poison").enqueue()
    healthy = await app.find_task("innocent").enqueue(seconds=0)

    bad, good = await restarted(workers, app, [deadly, healthy], concurrency=1)

    check_poison(bad)
    check_innocent(good)
    assert bad.failures == 3
    starts = workers.records("started", job_id=deadly)
    assert [record.of["number"] for record in starts] == [1, 2, 3]


async def test_b24_at_most_once_survives_no_loss(
    app: App, journal: Journal, workers: Workers
) -> None:
    poison.register(app, journal)
    deadly = await app.find_task("poison").options(max_attempts=1).enqueue()
    healthy = await app.find_task("innocent").enqueue(seconds=0)

    bad, good = await restarted(workers, app, [deadly, healthy])

    assert (bad.status, bad.attempts, bad.losses) == (Status.FAILED, 1, 1)
    check_innocent(good)
    assert len(workers.records("started", job_id=deadly)) == 1


@pytest.mark.parametrize("count", [1, 2])
async def test_b25_a_poison_is_found_out_and_nine_innocents_are_not_charged(
    app: App, journal: Journal, workers: Workers, scale: int, count: int
) -> None:
    poison.register(app, journal)
    seconds = 0.5 if scale == 1 else 2.0
    innocent, deadly = app.find_task("innocent"), app.find_task("poison")
    ids = await app.enqueue_many(
        deadly.job() if n == 4 else innocent.job(seconds=seconds) for n in range(10)
    )

    jobs = list(await restarted(workers, app, ids, count=count))

    bad = jobs.pop(4)
    check_poison(bad)
    assert bad.failures == 2
    for job in jobs:
        check_innocent(job)
    # It has tested something: most of them ran beside it.
    assert sum(job.losses for job in jobs) >= (9 if count == 1 else 1)
    starts = workers.records("started", job_id=ids[4])
    assert [record.of["number"] for record in starts] == [1, 2, 3]
    # From its second start on it was alone, in its process.
    for record in starts[1:]:
        beside = [
            other
            for other in workers.records("started", process=record.process)
            if other.at < record.at
        ]
        over = workers.records("ended", process=record.process)
        assert {each.of["job_id"] for each in beside} == {
            each.of["job_id"] for each in over if each.at < record.at
        }


async def test_b25_a_poison_is_found_out_though_there_is_always_work(
    app: App, journal: Journal, workers: Workers
) -> None:
    """A worker that never runs out of work has to stop for it, and for it alone."""
    poison.register(app, journal)
    innocent = app.find_task("innocent")
    deadly = known(await app.find_task("poison").enqueue())
    stream = await app.enqueue_many(innocent.job(seconds=0.3) for _ in range(400))

    (bad,) = await restarted(workers, app, [deadly], concurrency=4)
    left = await jobs_of(app, stream)

    check_poison(bad)
    assert any(job.status is not Status.SUCCEEDED for job in left)
    assert all(job.failures == 0 for job in left)
    assert all(job.losses <= 1 for job in left)
