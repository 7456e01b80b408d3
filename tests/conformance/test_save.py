"""Save: what an attempt keeps for the next one, fenced as every verb is (law 6)."""

from __future__ import annotations

import pytest

from rowlock import _outcome
from rowlock._job import ClaimKey, Status
from rowlock._store import Store
from rowlock.testing import FakeClock

from .given import ClaimOne, Enqueue, JobIn, Read, dead, key_of, retry


async def test_state_and_progress_are_kept_apart(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()

    assert await store.save(held.key, state='{"page": 3}')
    assert await store.save(held.key, progress='{"fraction": 0.5, "note": "½ żółw"}')

    job = await read(job_id)
    assert job.state == {"page": 3}
    assert job.progress == {"fraction": 0.5, "note": "½ żółw"}
    assert job.status is Status.RUNNING


async def test_both_may_come_at_once_and_the_last_counts(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.save(held.key, state="1", progress='{"fraction": 0.1}')

    assert await store.save(held.key, state="2", progress='{"fraction": 0.2}')

    job = await read(job_id)
    assert (job.state, job.progress) == (2, {"fraction": 0.2})


async def test_saving_neither_only_asks_whether_the_claim_holds(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.save(held.key, state="1", progress='{"fraction": 0.1}')

    assert await store.save(held.key)

    job = await read(job_id)
    assert (job.state, job.progress) == (1, {"fraction": 0.1})
    await store.finish([dead(held.key)])
    assert not await store.save(held.key)


async def test_the_state_outlives_the_attempt(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    (job_id,) = await enqueue(max_attempts=9)
    held = await claim_one()
    await store.save(held.key, state='["done", 2]')

    await store.finish([retry(held.key)])
    held = await claim_one()
    assert held.state == ["done", 2]
    await store.finish([_outcome.lost(held)])
    held = await claim_one(suspects=True)
    assert held.state == ["done", 2]
    await store.finish([dead(held.key)])
    await store.replay([job_id], by="test")
    assert (await claim_one()).state == ["done", 2]


async def test_law_6_a_claim_that_was_taken_over_saves_nothing(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    old = await claim_one(worker="w1")
    await store.finish([_outcome.lost(old)])
    new = await claim_one(worker="w2", suspects=True)
    await store.save(new.key, state='"new"')
    before = await read(job_id)

    assert not await store.save(old.key, state='"old"', progress='{"fraction": 1}')

    assert await read(job_id) == before


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.RUNNING])
async def test_law_6_what_is_not_running_saves_nothing(
    store: Store, job_in: JobIn, read: Read, status: Status
) -> None:
    before = await read(await job_in(status))

    assert not await store.save(key_of(before), state="1")

    assert await read(before.id) == before


async def test_law_6_a_retry_that_waits_saves_nothing(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.finish([retry(held.key, delay=60)])

    assert not await store.save(held.key, state="1")
    assert (await read(job_id)).state is None


async def test_law_6_a_job_that_never_was_saves_nothing(store: Store) -> None:
    assert not await store.save(ClaimKey(999_999_999, 1), state="1")


async def test_saving_extends_no_lease(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read, clock: FakeClock
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    clock.advance(5)

    await store.save(held.key, state="1")

    assert (await read(job_id)).leased_until == held.leased_until
