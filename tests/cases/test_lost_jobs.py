"""Cases of the kind *lost jobs*: what was enqueued and is nowhere any more."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from rowlock import App, Filter, Job, Retention, Status
from rowlock._store import Pause
from rowlock.events import Event, UpkeepDone
from rowlock.testing import FakeClock
from tests.endings import ended, finished, rested
from tests.journal import Gate, Journal
from tests.programs import gated
from tests.workers import RECOVERED_S, Workers


@pytest.mark.parametrize("third", ["of an unknown task", "of another shape"])
async def test_b01_one_bad_job_of_a_batch_takes_no_other_with_it(
    database_url: str, app: App, third: str
) -> None:
    """
    A job of an unknown task isn't claimed (law 16): it stays pending and costs nothing.
    One that doesn't fit its handler fails as if the handler had raised.
    """
    other_deploy = App(database_url)

    @other_deploy.task(name="step" if third == "of another shape" else "gone")
    async def other(text: str) -> None: ...

    @app.task
    async def step(n: int) -> None: ...

    jobs = [step.job(n=n) for n in range(10)]
    jobs[2] = other.options(max_attempts=2, backoff=0).job(text="third")
    ids = await app.enqueue_many(jobs)
    bad_id = ids.pop(2)
    assert bad_id is not None

    async with app.worker(concurrency=10):
        good = await finished(app, ids, within=5)
        if third == "of another shape":
            (bad,) = await finished(app, [bad_id], within=5)
        else:
            bad = await app.get(bad_id)

    assert {(job.status, job.claims) for job in good} == {(Status.SUCCEEDED, 1)}
    if third == "of another shape":
        assert (bad.status, bad.failures) == (Status.FAILED, 2)
        assert (bad.last_error or "").startswith("PayloadError")
    else:
        assert (bad.status, bad.claims, bad.attempts) == (Status.PENDING, 0, 0)
    assert not (await app.list(Filter(status=Status.RUNNING))).jobs


async def test_b02_a_job_whose_worker_is_killed_is_seen_all_the_time_and_runs_again(
    app: App, journal: Journal, workers: Workers
) -> None:
    """
    The second worker is fresh, and recovers nothing in its first lease (law 17): the
    second attempt starts a lease and a round of recovery after that worker has.
    """
    gated.register(app, journal)
    job_id = await app.find_task("gated").enqueue(gate="gate")
    assert job_id is not None
    seen: list[list[Job]] = []

    async def look() -> None:
        while True:
            seen.append(list((await app.list()).jobs))
            await asyncio.sleep(0.05)  # the case's own: somebody who keeps looking

    looking = asyncio.create_task(look())
    first = await workers.start("gated", "first")
    await workers.until("started", number=1)
    first.kill()
    await workers.start("gated", "second")
    (fresh,) = workers.records("worker.started", store=app.url)[1:]
    (again,) = await workers.until("started", number=2)
    Gate(journal.folder, "gate").open()
    (job,) = await finished(app, [job_id])
    looking.cancel()

    assert again.at - fresh.at < RECOVERED_S
    assert (job.status, job.attempts, job.losses) == (Status.SUCCEEDED, 2, 1)
    assert job.result == "second"
    assert len(seen) > 10
    assert {tuple(job.id for job in jobs) for jobs in seen} == {(job_id,)}


async def test_b03_a_backlog_older_than_the_retention_stays(
    database_url: str, clock: FakeClock
) -> None:
    day = timedelta(days=1)
    retention = Retention(succeeded=day, cancelled=day, failed=day)
    app = App(database_url, clock=clock, retention=retention)
    deleted: list[int] = []
    has_pruned = asyncio.Event()

    def count(event: Event) -> None:
        if isinstance(event, UpkeepDone):
            deleted.append(event.pruned)
            has_pruned.set()

    @app.task(backoff=7 * day)
    async def step(*, fails: bool = False) -> None:
        if fails:
            raise ValueError

    async with app:
        await app._store.pause(Pause(queue="paused"))
        jobs = [step.options(queue="paused").job() for _ in range(100)]
        jobs += [step.options(delay=7 * day).job() for _ in range(20)]
        jobs += [step.job(fails=True) for _ in range(5)]
        kept = await app.enqueue_many(jobs)
        async with app.worker():
            await ended(app, await step.enqueue())
            for job_id in kept[120:]:
                await rested(app, job_id)
        clock.advance(3 * day)
        app.listen(count)
        for _ in range(3):
            has_pruned.clear()
            async with app.worker(), asyncio.timeout(10):
                await has_pruned.wait()
        page = await app.list(limit=1000)

    assert {job.id for job in page.jobs} == set(kept)
    assert {job.status for job in page.jobs} == {Status.PENDING}
    assert deleted == [1, 0, 0], "the one that had finished"
