"""Delete: finished jobs only, for good."""

from __future__ import annotations

import pytest

from rowlock._filter import Filter
from rowlock._job import Status
from rowlock._store import Answer, Store

from .given import ClaimOne, Enqueue, JobIn, Read, retry


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
async def test_a_finished_job_is_gone_for_good(
    store: Store, job_in: JobIn, status: Status
) -> None:
    kept = await job_in(status)
    job_id = await job_in(status)

    (answer,) = await store.delete([job_id])

    assert (answer.job_id, answer.done, str(answer)) == (job_id, True, "done")
    assert [job.id for job in (await store.list(Filter())).jobs] == [kept]
    (again,) = await store.delete([job_id])
    assert again == Answer(job_id=job_id, done=False, status=None)


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING])
async def test_an_unfinished_job_stays(
    store: Store, job_in: JobIn, read: Read, status: Status
) -> None:
    job_id = await job_in(status)
    before = await read(job_id)

    (answer,) = await store.delete([job_id])

    assert answer == Answer(job_id=job_id, done=False, status=status)
    assert await read(job_id) == before


async def test_a_retry_that_waits_stays(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    await store.finish([retry((await claim_one()).key, delay=60)])

    (answer,) = await store.delete([job_id])

    assert (answer.done, answer.status) == (False, Status.PENDING)
    assert (await read(job_id)).failures == 1


async def test_answers_come_in_the_order_given(store: Store, job_in: JobIn) -> None:
    running = await job_in(Status.RUNNING)
    failed = await job_in(Status.FAILED)
    cancelled = await job_in(Status.CANCELLED)

    answers = await store.delete([cancelled, 999_999_999, running, failed])

    assert [(each.job_id, each.done) for each in answers] == [
        (cancelled, True),
        (999_999_999, False),
        (running, False),
        (failed, True),
    ]
    assert list(await store.delete([])) == []
