"""Suspects among worker processes: each runs once and alone, and one worker waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta

import pytest

from rowlock import App, Status, _outcome
from rowlock._store import Demand
from tests.endings import ended, finished, known
from tests.journal import Gate, Journal
from tests.programs import poison
from tests.workers import LEASE_S, Workers

pytestmark = pytest.mark.timeout(120)  # several processes start on busy cores

PROCESSES = 3
LONGEST_S = 0.4  # of the attempts of these tests
SAFETY_S = 1.0
BUSY_CORES_S = 1.0


async def innocents(app: App, count: int) -> list[int]:
    """Enqueue jobs that end at different times, so that no worker is ever empty."""
    task = app.find_task("innocent")
    jobs = (task.job(seconds=LONGEST_S * (1 + n % 4) / 4) for n in range(count))
    return [known(job_id) for job_id in await app.enqueue_many(jobs)]


async def suspects(app: App, count: int, *, delay: timedelta) -> list[int]:
    """Enqueue jobs and lose the worker that ran them, before there are others."""
    ids = await innocents(app, count)
    demand = Demand(total=count, tasks=frozenset({"innocent"}))
    lease = timedelta(seconds=LEASE_S)
    claimed = await app._store.claim(demand, worker="w-dead", lease=lease)
    lost = [_outcome.lost(held)._replace(delay=delay) for held in claimed.claims]
    await app._store.finish(lost)
    return ids


async def start(workers: Workers) -> None:
    for n in range(PROCESSES):
        await workers.start(
            "poison",
            f"worker{n}",
            concurrency=4,
            queues=["default", f"of-{n}"],
            safety_interval=SAFETY_S,
        )


class Runs:
    """When each job ran, and in which process; each only once, in these tests."""

    def __init__(self, workers: Workers) -> None:
        started = workers.records("started")
        self.started = {each.of["job_id"]: each for each in started}
        assert len(self.started) == len(started)
        over = workers.records("ended")
        self._ended_at = {each.of["job_id"]: each.at for each in over}

    def beside(self, job_id: int) -> Sequence[int]:
        """Tell which other jobs ran in a job's process while it ran."""
        began, ended_at = self.started[job_id], self._ended_at[job_id]
        return [
            other_id
            for other_id, other in self.started.items()
            if other.process == began.process
            and other.at < ended_at
            and self._ended_at.get(other_id, ended_at) > began.at
            and other_id != job_id
        ]


async def test_of_many_suspects_each_runs_once_and_alone_and_all_end(
    app: App, journal: Journal, workers: Workers, scale: int
) -> None:
    poison.register(app, journal)
    lost = await suspects(app, 6 * scale, delay=timedelta(0))
    rest = await innocents(app, 120 * scale)

    await start(workers)
    jobs = await finished(app, [*lost, *rest], within=60 * scale)

    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert {job.id: (job.claims, job.attempts, job.losses) for job in jobs} == {
        **dict.fromkeys(lost, (2, 2, 1)),
        **dict.fromkeys(rest, (1, 1, 0)),
    }
    runs = Runs(workers)
    for job_id in lost:
        assert runs.beside(job_id) == []


async def test_law_19_a_suspect_starts_in_time_though_no_worker_is_ever_empty(
    app: App, journal: Journal, workers: Workers
) -> None:
    poison.register(app, journal)
    (suspect,) = await suspects(app, 1, delay=timedelta(hours=1))
    await innocents(app, 600)
    await start(workers)

    due_at = time.monotonic()
    await app.move(suspect, delay=0)
    job = await ended(app, suspect)

    assert (job.status, job.claims) == (Status.SUCCEEDED, 2)
    runs = Runs(workers)
    assert runs.beside(suspect) == []
    late_s = runs.started[suspect].at - due_at
    assert late_s < SAFETY_S + LONGEST_S + BUSY_CORES_S


async def test_one_worker_of_a_queue_gives_way_and_the_others_go_on(
    app: App, journal: Journal, workers: Workers
) -> None:
    poison.register(app, journal)
    gated = app.find_task("gated")
    (suspect,) = await suspects(app, 1, delay=timedelta(hours=1))
    await start(workers)
    # Each holds one, and so can't have the suspect.
    for n in range(PROCESSES):
        await gated.options(queue=f"of-{n}").enqueue(gate="gate")
    held = await workers.until("started", count=PROCESSES)
    await innocents(app, 600)

    await app.move(suspect, delay=0)
    since = time.monotonic() + SAFETY_S + BUSY_CORES_S
    await asyncio.sleep(SAFETY_S + 2 * BUSY_CORES_S)  # who goes on is seen by going on
    busy = {run.process for run in workers.records("started") if run.at > since}
    Gate(journal.folder, "gate").open()
    job = await ended(app, suspect)

    assert (job.status, job.claims) == (Status.SUCCEEDED, 2)
    assert Runs(workers).beside(suspect) == []
    (waiting,) = {each.process for each in held} - busy
    (started,) = workers.records("started", job_id=suspect)
    assert started.process == waiting
