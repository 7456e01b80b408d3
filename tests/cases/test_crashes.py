"""Cases of the kind *stuck after a crash*: what a dead worker leaves behind."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from rowlock import App, Status
from rowlock._store import Demand
from tests.endings import finished, jobs_of
from tests.eventually import eventually
from tests.journal import Gate, Journal
from tests.programs import gated
from tests.workers import RECOVERED_S, Workers


async def test_b09_a_worker_that_starts_again_does_not_vouch_for_its_former_life(
    app: App, journal: Journal, workers: Workers
) -> None:
    """
    A worker has no name to share: its id is new at each start, and claims carry it.
    What its former life held is recovered a lease and a round of recovery after it
    started again (law 17).
    """
    gated.register(app, journal)
    task = app.find_task("gated")
    former = await workers.start("gated", "same-name")
    job_id = await task.enqueue(gate="gate")
    await workers.until("started", job_id=job_id)
    former.kill()

    busy = await app.enqueue_many(task.job(gate="busy") for _ in range(4))
    later = await workers.start("gated", "same-name", concurrency=5)
    (_, born_again) = workers.records("worker.started")
    (recovered,) = await workers.until("claim.recovered", job_id=job_id)
    assert {job.status for job in await jobs_of(app, busy)} == {Status.RUNNING}
    # It is a suspect now, and waits until its worker holds nothing else.
    for name in ("busy", "gate"):
        Gate(journal.folder, name).open()
    (job, *others) = await finished(app, [job_id, *busy])

    first, second = (r.of["worker"] for r in workers.records("claimed", job_id=job_id))
    assert first != second
    assert recovered.process == later.name
    assert recovered.at - born_again.at < RECOVERED_S
    assert (job.status, job.attempts, job.losses) == (Status.SUCCEEDED, 2, 1)
    assert {(other.status, other.claims) for other in others} == {(Status.SUCCEEDED, 1)}


@pytest.mark.parametrize("of_queue", [False, True], ids=["worker", "queue"])
@pytest.mark.parametrize("limit", [1, 3])
async def test_b10_as_many_stale_jobs_as_the_limit_hold_up_nothing(
    app: App, journal: Journal, workers: Workers, limit: int, *, of_queue: bool
) -> None:
    """A recovery needs no place, and what is stale takes none. No limit is per key."""
    gated.register(app, journal)
    task = app.find_task("gated")
    start = partial(
        workers.start,
        "gated",
        concurrency=5 if of_queue else limit,
        queues={"default": limit} if of_queue else None,
    )
    former = await start("former")
    stale = await app.enqueue_many(task.job(gate="gate") for _ in range(limit))
    await workers.until("started", count=limit)
    waiting = await app.enqueue_many(task.job(gate="gate") for _ in range(2 * limit))
    former.kill()
    Gate(journal.folder, "gate").open()

    await start("later")
    (_, born) = workers.records("worker.started")
    found = await workers.until("claim.recovered", count=limit)
    jobs = await finished(app, [*stale, *waiting])

    assert all(each.at - born.at < RECOVERED_S for each in found)
    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert [job.losses for job in jobs] == [1] * limit + [0] * 2 * limit
    assert [job.attempts for job in jobs] == [2] * limit + [1] * 2 * limit


async def test_b14_a_sweep_that_dies_half_way_leaves_all_to_the_next(
    app: App, journal: Journal, workers: Workers
) -> None:
    """Nobody leads, so that there is no leader's lease to wait for."""
    gated.register(app, journal)
    task = app.find_task("gated")
    ids = await app.enqueue_many(task.job(gate="gate") for _ in range(20))
    demand = Demand(total=20, tasks=frozenset({"gated"}))
    lease = timedelta(seconds=0.1)
    claimed = await app._store.claim(demand, worker="w-gone", lease=lease)
    assert len(claimed.claims) == 20
    Gate(journal.folder, "gate").open()
    sweeper = await workers.start("sweeper", queues=["other"])
    await eventually(sweeper.has_died, what="the sweep")
    ((swept,), before) = workers.records("swept"), await jobs_of(app, ids)
    assert swept.of["count"] == 20
    assert {job.status for job in before} == {Status.RUNNING}

    await workers.start("gated", "next")
    (_, born) = workers.records("worker.started")
    found = await workers.until("claim.recovered", count=20)
    jobs = await finished(app, ids)

    assert all(each.at - born.at < RECOVERED_S for each in found)
    assert {each.of["job_id"] for each in found} == set(ids)
    assert {(job.status, job.attempts, job.losses) for job in jobs} == {
        (Status.SUCCEEDED, 2, 1)
    }


async def test_b12_a_job_whose_last_attempt_died_with_its_process_is_a_dead_letter(
    app: App, journal: Journal, workers: Workers
) -> None:
    """That the failure is counted is shown by its event; figures come later."""
    gated.register(app, journal)
    task = app.find_task("gated").options(max_attempts=1, idempotency_key="order:1")
    first = await workers.start("gated", "first")
    other = await workers.start("gated", "second", queues=["other"])
    job_id = await task.enqueue(gate="gate")
    (started,) = await workers.until("started")
    first.kill()

    (job,) = await finished(app, [job_id])

    assert (job.status, job.attempts, job.losses) == (Status.FAILED, 1, 1)
    assert (job.last_error or "").startswith("WorkerLost")
    (dead,) = await workers.until("job.dead_lettered", process=other.name)
    assert dead.at - started.at < RECOVERED_S
    assert await task.enqueue(gate="gate") not in (None, job_id)
