"""Cases of the kind *lost jobs*: what was enqueued and is nowhere any more."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from rowlock import App, Filter, Job, Retention, Status
from rowlock._events import Event, UpkeepDone
from rowlock._store import Pause
from rowlock.testing import FakeClock
from tests.endings import finished, jobs_of
from tests.eventually import eventually
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
    second = timedelta(seconds=1)
    app = App(
        database_url,
        clock=clock,
        retention=Retention(succeeded=second, cancelled=second, failed=second),
    )
    pruned: list[int] = []

    def count(event: Event) -> None:
        if isinstance(event, UpkeepDone):
            pruned.append(event.pruned)

    @app.task(backoff=3600)
    async def step(*, fails: bool = False) -> None:
        if fails:
            raise ValueError

    async with app:
        await app.store.pause(Pause(queue="paused"))
        backlog = [step.options(queue="paused").job() for _ in range(100)]
        backlog += [step.options(delay=3600).job() for _ in range(20)]
        failing = await app.enqueue_many(step.job(fails=True) for _ in range(5))
        kept = {*await app.enqueue_many(backlog), *failing}
        done = await step.enqueue()
        async with app.worker():
            await finished(app, [done])

            async def failed() -> bool:
                return all(job.failures == 1 for job in await jobs_of(app, failing))

            await eventually(failed)

        clock.advance(3)
        app.listen(count)
        for rounds in range(3):

            async def has_pruned(rounds: int = rounds) -> bool:
                return len(pruned) > rounds

            async with app.worker():
                await eventually(has_pruned)

        page = await app.list(limit=1000)
    assert {job.id for job in page.jobs} == kept
    assert {job.status for job in page.jobs} == {Status.PENDING}
    assert sum(pruned) == 1, "the one that had finished"
