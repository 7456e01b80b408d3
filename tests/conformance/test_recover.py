"""Recover: what becomes of a claim that is lost, and who may still write."""

from __future__ import annotations

from datetime import timedelta

from rowlock import _outcome
from rowlock._job import Status
from rowlock._store import Store
from rowlock.testing import FakeClock

from .given import (
    LEASE,
    ClaimOne,
    ClaimSome,
    Elapse,
    Enqueue,
    FinishOne,
    Read,
)

SECOND = timedelta(seconds=1)


async def test_a_recovered_claim_goes_back_until_its_third_loss(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    clock: FakeClock,
) -> None:
    (job_id,) = await enqueue(max_attempts=9)

    waits = []
    for losses in range(2):
        held = await claim_one(suspects=losses > 0)
        settled = await finish_one(_outcome.lost(held))
        assert settled.status is Status.PENDING
        assert settled.run_at is not None
        waits.append((settled.run_at - clock.now()).total_seconds())
        clock.advance(settled.run_at - clock.now())
    settled = await finish_one(_outcome.lost(await claim_one(suspects=True)))

    assert waits == [0, 5]
    assert settled.status is Status.FAILED
    job = await read(job_id)
    assert (job.attempts, job.failures, job.losses) == (3, 0, 3)
    assert [error["type"] for error in job.errors] == ["WorkerLost"] * 3
    assert job.last_error is not None
    assert "w1" in job.last_error


async def test_b02_a_job_whose_worker_died_stays_in_the_table(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue(max_attempts=3)
    await claim_one(worker="dead")

    (lost,) = await store.lost(10, worker="dead")
    assert (await read(job_id)).status is Status.RUNNING
    await store.finish([_outcome.lost(lost)])
    assert (await read(job_id)).status is Status.PENDING
    held = await claim_one(worker="next", suspects=True)
    assert held.attempts == 2
    await store.finish([_outcome.succeeded(held.key)])
    assert (await read(job_id)).status is Status.SUCCEEDED


async def test_b09_a_busy_successor_does_not_vouch_for_the_claims_of_a_dead_worker(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, elapse: Elapse
) -> None:
    await enqueue(2)
    old = await claim_one(worker="host-1")
    new = await claim_one(worker="host-1")

    for _ in range(4):
        await elapse(LEASE.total_seconds() / 2)
        await store.renew([new.key], worker="host-1", lease=LEASE)

    # A claim lives by its own renewals, not by those of a worker of the same name.
    assert [each.key for each in await store.lost(10)] == [old.key]


async def test_b12_the_last_attempt_is_not_lost_for_ever(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    elapse: Elapse,
) -> None:
    (job_id,) = await enqueue(max_attempts=1, idempotency_key="k")
    await claim_one()
    await elapse(LEASE.total_seconds() + 1)
    (lost,) = await store.lost(10)

    settled = await finish_one(_outcome.lost(lost))

    assert settled.status is Status.FAILED
    assert (await read(job_id)).errors[-1]["type"] == "WorkerLost"


async def test_b15_a_recovery_that_comes_after_the_finish_is_refused(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    elapse: Elapse,
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await elapse(LEASE.total_seconds() + 1)

    (lost,) = await store.lost(10)
    await finish_one(_outcome.succeeded(held.key, '"mine"'))
    before = await read(job_id)
    settled = await finish_one(_outcome.lost(lost))

    assert (settled.accepted, settled.status) == (False, Status.SUCCEEDED)
    assert await read(job_id) == before


async def test_b16_a_finish_that_comes_after_the_recovery_is_refused(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    elapse: Elapse,
) -> None:
    (job_id,) = await enqueue()
    stalled = await claim_one(worker="a")
    await elapse(LEASE.total_seconds() + 1)
    (lost,) = await store.lost(10)
    await finish_one(_outcome.lost(lost))
    taker = await claim_one(worker="b", suspects=True)
    await finish_one(_outcome.succeeded(taker.key, '"B"'))

    settled = await finish_one(_outcome.succeeded(stalled.key, '"A"'))

    assert (settled.accepted, settled.status, settled.claims) == (
        False,
        Status.SUCCEEDED,
        2,
    )
    assert (await read(job_id)).result == "B"


async def test_b24_a_job_that_kills_its_process_starts_max_attempts_times(
    enqueue: Enqueue, claim: ClaimSome, finish_one: FinishOne, clock: FakeClock
) -> None:
    await enqueue(max_attempts=3)

    starts = 0
    while held := (await claim(1, alone=True, suspects=starts > 0)).claims:
        starts += 1
        await finish_one(_outcome.lost(held[0]))
        clock.advance(60)

    assert starts == 3
