"""Cases of the kind *double runs*: one job in two handlers at the same time."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

from rowlock import App, Status
from rowlock._store import Demand
from rowlock.testing import FakeClock
from tests.endings import finished, jobs_of
from tests.eventually import eventually
from tests.journal import Gate, Journal
from tests.programs import gated, late_starts
from tests.workers import LEASE_S, START_S, Workers

LEASE = timedelta(seconds=LEASE_S)


async def test_b04_a_long_job_is_renewed_well_before_its_lease_is_over(
    app: App, journal: Journal, workers: Workers
) -> None:
    gated.register(app, journal)
    for label in ("one", "two", "three"):
        workers.launch("gated", label)
    await workers.until("worker.started", count=3, within=START_S)
    job_id = await app.find_task("nap").enqueue(seconds=3.5 * LEASE_S)
    await workers.until("started")

    left: list[timedelta] = []
    while (job := (await jobs_of(app, [job_id]))[0]).status is Status.RUNNING:
        assert job.leased_until is not None
        left.append(job.leased_until - datetime.now(UTC))
        await asyncio.sleep(0.05)  # the case's own: somebody who keeps looking

    assert (job.status, job.attempts) == (Status.SUCCEEDED, 1)
    assert len(workers.records("started")) == 1
    assert len(left) > 20
    assert min(left) > timedelta(seconds=LEASE_S / 3)


async def test_b05_a_worker_whose_outcome_is_late_releases_nobody_elses_claim(
    app: App, journal: Journal, workers: Workers
) -> None:
    """
    While an outcome can't be written its claim is renewed for one lease, then left to
    recovery; one that reaches the store after that is refused.
    """
    gated.register(app, journal)
    first = await workers.start("late_outcomes", "first")
    job_id = await app.find_task("gated").enqueue(gate="gate")
    await workers.until("started", process=first.name)
    second = await workers.start("gated", "second")
    await workers.until("started", process=second.name)

    (before,) = await jobs_of(app, [job_id])
    Gate(journal.folder, "store").open()
    late = await workers.until("settled", process=first.name, claim=1, lost=False)
    (after,) = await jobs_of(app, [job_id])
    Gate(journal.folder, "gate").open()
    (job,) = await finished(app, [job_id])

    assert [record.of["accepted"] for record in late] == [False]
    assert (after.status, after.worker, after.claims) == (
        Status.RUNNING,
        before.worker,
        2,
    )
    assert before.leased_until
    assert after.leased_until
    assert before.leased_until <= after.leased_until
    assert (job.status, job.claims, job.result) == (Status.SUCCEEDED, 2, "second")
    # It is told of after it was written.
    assert len(await workers.until("attempt.succeeded")) == 1


async def test_b06_jobs_that_start_late_are_swept_by_nobody_and_run_once(
    app: App, journal: Journal, workers: Workers, scale: int
) -> None:
    late_starts.register(app, journal)
    nap = app.find_task("nap")
    swept: list[int] = []
    sweeps = 0

    async def sweep() -> None:
        nonlocal sweeps
        while True:
            await app._store.renew((), worker="sweeper", lease=LEASE)
            swept.extend(claim.job_id for claim in await app._store.lost(100))
            sweeps += 1
            await asyncio.sleep(0.01)  # the case's own interval

    # Once it finds this one, the sweeper's grace is over: it would find others too.
    abandoned_id = await nap.enqueue(seconds=0)
    await abandon(app, "nap")
    sweeping = asyncio.create_task(sweep())

    async def has_swept() -> bool:
        return bool(swept)

    await eventually(has_swept)
    for n in range(4):
        workers.launch("late_starts", f"worker-{n}", concurrency=25)
    await workers.until("worker.started", count=4, within=START_S)
    await finished(app, [abandoned_id])
    swept.clear()
    sweeps = 0
    ids = await app.enqueue_many(nap.job(seconds=0) for _ in range(200 * min(scale, 5)))
    jobs = await finished(app, ids, within=60)
    sweeping.cancel()

    assert not swept
    assert sweeps > 20
    assert {(job.status, job.claims) for job in jobs} == {(Status.SUCCEEDED, 1)}
    starts = Counter(record.of["job_id"] for record in workers.records("started"))
    assert starts == Counter([abandoned_id, *ids])


async def test_b08_a_job_planned_further_ahead_than_the_lease_runs_once_when_it_is_due(
    database_url: str, clock: FakeClock
) -> None:
    due_at = clock.now() + timedelta(seconds=10)
    started: list[tuple[int, datetime]] = []
    looks: list[datetime] = []

    def one_more() -> App:
        app = App(database_url, clock=clock, lease=2)

        @app.task
        async def step(n: int) -> None:
            started.append((n, clock.now()))

        @app.task(priority=-1)
        async def look() -> None:
            looks.append(clock.now())

        return app

    apps = [one_more() for _ in range(4)]
    step, look = apps[0].find_task("step"), apps[0].find_task("look")
    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app)
            await stack.enter_async_context(app.worker())
        ids = await apps[0].enqueue_many(
            step.options(delay=10).job(n=n) for n in range(50)
        )
        for seconds in (2.5, 2.5, 2.5, 2.499999):
            clock.advance(seconds)
            await finished(apps[0], [await look.enqueue()])
        assert not started
        clock.advance(0.000001)
        jobs = await finished(apps[0], ids)

    assert len(looks) == 4
    assert sorted(started) == [(n, due_at) for n in range(50)]
    assert {(job.claims, job.started_at) for job in jobs} == {(1, due_at)}


async def abandon(app: App, task: str) -> None:
    """Claim a job of this task as a worker that dies at once."""
    demand = Demand(total=1, tasks=frozenset({task}))
    claimed = await app._store.claim(demand, worker="w-dead", lease=LEASE)
    assert len(claimed.claims) == 1
