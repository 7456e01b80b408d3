"""Prune: laws 12 and 13; expire what never started, delete what ended long ago."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import Status
from rowlock._store import Pause, Pruned, Retention, Store
from rowlock.testing import FakeClock

from .given import ClaimOne, Enqueue, JobIn, Read, retry

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
NOTHING = Pruned(expired=0, deleted=0)


async def ids(store: Store) -> set[int]:
    return {job.id for job in (await store.list(Filter(), limit=1000)).jobs}


async def until_nothing_is_left(store: Store, retention: Retention) -> Pruned:
    expired = deleted = 0
    while (pruned := await store.prune(retention, limit=2)) != NOTHING:
        assert pruned.expired <= 2
        assert pruned.deleted <= 2
        expired += pruned.expired
        deleted += pruned.deleted
    return Pruned(expired=expired, deleted=deleted)


async def test_law_12_unfinished_jobs_stay_however_old(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, job_in: JobIn, clock: FakeClock
) -> None:
    waiting = await job_in(Status.PENDING)
    running = await job_in(Status.RUNNING)
    (retrying,) = await enqueue()
    held = await claim_one(queues={"default": 1})
    await store.finish([retry(held.key, delay=10)])
    (future,) = await enqueue(delay=36_000 * DAY)
    clock.advance(30_000 * DAY)

    assert await until_nothing_is_left(store, Retention()) == NOTHING
    assert await ids(store) == {waiting, running, retrying, future}


async def test_b03_a_backlog_older_than_the_retention_stays(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock
) -> None:
    second = Retention(succeeded=SECOND, cancelled=SECOND, failed=SECOND)
    await enqueue(5, queue="retrying")
    for _ in range(5):
        held = await claim_one()
        await store.finish([retry(held.key, delay=3600)])
    await store.pause(Pause(queue="paused"))
    await enqueue(100, queue="paused")
    await enqueue(20, delay=DAY)
    clock.advance(3)

    for _ in range(3):
        assert await store.prune(second, limit=1000) == NOTHING
    assert len(await ids(store)) == 125


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
async def test_law_12_nothing_younger_than_its_retention_goes(
    store: Store, job_in: JobIn, clock: FakeClock, status: Status
) -> None:
    kept = {Status.SUCCEEDED: 3, Status.CANCELLED: 4, Status.FAILED: 30}[status]
    retention = Retention(cancelled=4 * DAY)
    clock.advance(100 * DAY)
    job_id = await job_in(status)

    clock.advance(kept * DAY - SECOND)
    assert await until_nothing_is_left(store, retention) == NOTHING
    assert job_id in await ids(store)


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
async def test_law_12_all_older_than_its_retention_and_a_day_is_gone(
    store: Store, job_in: JobIn, clock: FakeClock, status: Status
) -> None:
    kept = {Status.SUCCEEDED: 3, Status.CANCELLED: 4, Status.FAILED: 30}[status]
    retention = Retention(cancelled=4 * DAY)
    await job_in(status)

    clock.advance((kept + 1) * DAY + SECOND)

    assert (await until_nothing_is_left(store, retention)).deleted == 1
    assert await ids(store) == set()


async def test_law_12_a_retention_counts_from_the_end_and_not_from_the_start(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock
) -> None:
    (job_id,) = await enqueue()
    clock.advance(300 * DAY)
    held = await claim_one()
    clock.advance(300 * DAY)
    await store.finish([_outcome.succeeded(held.key)])
    clock.advance(2 * DAY)

    assert await until_nothing_is_left(store, Retention()) == NOTHING
    assert await ids(store) == {job_id}


async def test_law_12_a_retention_of_zero_keeps_nothing_for_longer_than_a_day(
    store: Store, job_in: JobIn, clock: FakeClock
) -> None:
    zero = Retention(
        succeeded=timedelta(0), cancelled=timedelta(0), failed=timedelta(0)
    )
    for status in Status:
        await job_in(status)
    clock.advance(DAY + SECOND)

    assert (await until_nothing_is_left(store, zero)).deleted == 3
    left = {job.status for job in (await store.list(Filter())).jobs}
    assert left == {Status.PENDING, Status.RUNNING}


async def test_a_replayed_job_is_unfinished_again(
    store: Store, job_in: JobIn, clock: FakeClock
) -> None:
    job_id = await job_in(Status.FAILED)
    clock.advance(29 * DAY)
    await store.replay([job_id], by="test")
    clock.advance(300 * DAY)

    assert await until_nothing_is_left(store, Retention()) == NOTHING
    assert await ids(store) == {job_id}


async def test_law_13_prune_keeps_to_its_limit_and_is_repeated_until_nothing_is_left(
    store: Store, enqueue: Enqueue, job_in: JobIn, clock: FakeClock
) -> None:
    for status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED):
        for _ in range(3):
            await job_in(status)
    clock.advance(300 * DAY)
    await enqueue(5, expires_at=clock.now() - SECOND)
    await enqueue(2)

    pruned = await until_nothing_is_left(store, Retention())

    assert pruned == Pruned(expired=5, deleted=9)
    assert len(await ids(store)) == 7


async def test_a_job_that_was_not_started_in_time_ends_cancelled(
    store: Store, enqueue: Enqueue, clock: FakeClock, read: Read
) -> None:
    (job_id,) = await enqueue(expires_at=clock.now() + 60 * SECOND)
    clock.advance(59)
    assert await store.prune(Retention(), limit=10) == NOTHING
    clock.advance(2)

    assert await store.prune(Retention(), limit=10) == Pruned(expired=1, deleted=0)

    job = await read(job_id)
    assert job.status is Status.CANCELLED
    assert job.finished_at == clock.now()
    assert job.updated_at == clock.now()
    assert (job.claims, job.attempts) == (0, 0)


async def test_an_expired_job_that_waits_for_its_run_at_expires_too(
    store: Store, enqueue: Enqueue, clock: FakeClock, read: Read
) -> None:
    (job_id,) = await enqueue(delay=DAY, expires_at=clock.now() + SECOND)
    clock.advance(2)

    assert (await store.prune(Retention(), limit=10)).expired == 1
    assert (await read(job_id)).status is Status.CANCELLED


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.PENDING])
async def test_what_has_started_does_not_expire(
    store: Store, job_in: JobIn, clock: FakeClock, read: Read, status: Status
) -> None:
    job_id = await job_in(status, expires_at=clock.now() + 60 * SECOND)
    clock.advance(3600)
    before = await read(job_id)

    assert await store.prune(Retention(), limit=10) == NOTHING
    assert await read(job_id) == before


async def test_an_expired_job_stays_for_the_retention_of_cancelled_ones(
    store: Store, enqueue: Enqueue, clock: FakeClock
) -> None:
    (job_id,) = await enqueue(expires_at=clock.now() + SECOND)
    clock.advance(300 * DAY)
    assert (await until_nothing_is_left(store, Retention())).expired == 1

    clock.advance(2 * DAY)
    assert await until_nothing_is_left(store, Retention()) == NOTHING
    assert await ids(store) == {job_id}
    clock.advance(3 * DAY)
    assert (await until_nothing_is_left(store, Retention())).deleted == 1


async def test_prune_leaves_the_others_as_they_were(
    store: Store, job_in: JobIn, clock: FakeClock
) -> None:
    await job_in(Status.SUCCEEDED)
    clock.advance(10 * DAY)
    for status in Status:
        await job_in(status, expires_at=clock.now() + DAY)
    before = {job.id: job for job in (await store.list(Filter())).jobs}

    pruned = await store.prune(Retention(), limit=100)

    assert pruned == Pruned(expired=0, deleted=1)
    after = {job.id: job for job in (await store.list(Filter())).jobs}
    assert after == {job_id: before[job_id] for job_id in after}
    assert len(after) == 5
