"""Waiting until jobs have come where a test wants them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from rowlock import App, Job, Status

from .eventually import eventually

# How long a job is waited for where a test doesn't say: a wake-up may be lost, which
# costs `safety_interval` (law 19). Tests of their own prove that they come in time.
PATIENCE_S = 40.0


def known(job_id: int | None) -> int:
    """Give the id of a job that was no duplicate."""
    assert job_id is not None
    return job_id


async def once(
    app: App,
    job_id: int | None,
    holds: Callable[[Job], bool],
    *,
    within: float = PATIENCE_S,
) -> Job:
    """Wait until something holds of a job, and give it."""
    job: Job | None = None

    async def it_holds() -> bool:
        nonlocal job
        job = await app.get(known(job_id))
        return holds(job)

    try:
        await eventually(it_holds, within=within)
    except AssertionError as error:
        msg = f"Within {within:g} s job {job_id} came no further than {job}"
        raise AssertionError(msg) from error
    assert job is not None
    return job


async def reached(
    app: App, job_id: int | None, status: Status, *, within: float = PATIENCE_S
) -> Job:
    """Wait until a job has that status, and give it."""
    return await once(app, job_id, lambda job: job.status is status, within=within)


async def rested(app: App, job_id: int | None, *, after: int = 1) -> Job:
    """Wait until an attempt is over, the first unless told, and give the job."""
    return await once(
        app,
        job_id,
        lambda job: job.attempts == after and job.status is not Status.RUNNING,
    )


async def ended(app: App, job_id: int | None, *, within: float = PATIENCE_S) -> Job:
    """Wait until a job is over, however it ended, and give it."""
    return await once(app, job_id, lambda job: job.status.is_final, within=within)


async def finished(
    app: App, job_ids: Iterable[int | None], *, within: float = PATIENCE_S
) -> Sequence[Job]:
    """Wait until all these jobs are over, then read them; in the order given."""
    job_ids = list(job_ids)
    give_up_at = time.monotonic() + within
    for job_id in job_ids:
        await ended(app, job_id, within=give_up_at - time.monotonic())
    return await jobs_of(app, job_ids)


async def jobs_of(app: App, job_ids: Iterable[int | None]) -> Sequence[Job]:
    """Read all these jobs, which have to be there; in the order given."""
    ids = [known(job_id) for job_id in job_ids]
    jobs = await app._store.get(ids)
    assert [job.id for job in jobs] == ids
    return jobs


async def unfinished(app: App) -> int:
    """Count the jobs that wait or run."""
    counts = [queue.counts for queue in (await app.stats()).queues]
    return sum(count[Status.PENDING] + count[Status.RUNNING] for count in counts)


async def all_over(app: App, *, within: float = 30) -> None:
    """Wait until no job waits or runs."""

    async def is_over() -> bool:
        return not await unfinished(app)

    await eventually(is_over, within=within, what="every job is over")
