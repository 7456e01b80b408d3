"""Renew: law 8, and the worker's sign of life."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import ClaimKey, Status
from rowlock._store import Store
from rowlock.testing import FakeClock

from .given import (
    LEASE,
    ClaimOne,
    ClaimSome,
    Enqueue,
    JobIn,
    OpenAnother,
    Read,
    dead,
    key_of,
    retry,
)

NOTHING: frozenset[ClaimKey] = frozenset()


async def test_law_8_renew_extends_by_the_lease_from_now(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    clock.advance(LEASE / 3)

    renewal = await store.renew([held.key], worker="w1", lease=2 * LEASE)

    assert (renewal.lost, renewal.cancelled) == (NOTHING, NOTHING)
    job = await read(job_id)
    assert job.leased_until == clock.now() + 2 * LEASE
    assert (job.status, job.claims, job.worker) == (Status.RUNNING, 1, "w1")


async def test_law_8_a_claim_whose_lease_ran_out_is_still_held(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    clock.advance(100 * LEASE)

    renewal = await store.renew([held.key], worker="w1", lease=LEASE)

    assert renewal.lost == NOTHING
    assert (await read(job_id)).leased_until == clock.now() + LEASE


async def test_law_8_a_shorter_lease_is_no_reason_to_wait(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()

    await store.renew([held.key], worker="w1", lease=LEASE / 2)

    assert (await read(job_id)).leased_until == clock.now() + LEASE / 2


async def test_law_8_a_claim_that_was_taken_over_is_lost(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    old = await claim_one(worker="w1")
    await store.finish([_outcome.lost(old)])
    new = await claim_one(worker="w2", suspects=True)
    before = await read(job_id)

    renewal = await store.renew([old.key], worker="w1", lease=9 * LEASE)

    assert renewal.lost == {old.key}
    assert await read(job_id) == before
    assert (await store.renew([new.key], worker="w2", lease=LEASE)).lost == NOTHING


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.RUNNING])
async def test_law_8_what_is_not_running_is_lost_and_left_alone(
    store: Store, job_in: JobIn, read: Read, status: Status
) -> None:
    before = await read(await job_in(status))
    key = key_of(before)

    renewal = await store.renew([key], worker="w1", lease=LEASE)

    assert renewal.lost == {key}
    assert await read(before.id) == before


async def test_law_8_a_retry_that_waits_is_lost_to_the_claim_that_it_had(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.finish([retry(held.key, delay=60)])
    before = await read(job_id)

    # The number still matches: it is the status that says that the claim is over.
    assert (await store.renew([held.key], worker="w1", lease=LEASE)).lost == {held.key}
    assert await read(job_id) == before


async def test_law_8_jobs_that_are_gone_or_never_were_are_lost(
    store: Store, job_in: JobIn
) -> None:
    gone = ClaimKey(await job_in(Status.FAILED), 1)
    await store.delete([gone.job_id])
    never = ClaimKey(999_999_999, 1)

    assert (await store.renew([gone, never], worker="w1", lease=LEASE)).lost == {
        gone,
        never,
    }


async def test_law_8_a_claim_number_from_the_future_holds_nothing(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    await enqueue()
    held = await claim_one()
    later = ClaimKey(held.job_id, held.key.claim + 1)

    assert (await store.renew([later], worker="w1", lease=LEASE)).lost == {later}


async def test_law_8_renew_tells_held_lost_and_cancelled_apart(
    store: Store, enqueue: Enqueue, claim: ClaimSome, clock: FakeClock, read: Read
) -> None:
    await enqueue(3)
    held, gone, asked = (await claim(3)).claims
    await store.finish([dead(gone.key)])
    await store.cancel([asked.job_id], by="test")
    clock.advance(1)

    renewal = await store.renew(
        [held.key, gone.key, asked.key], worker="w1", lease=LEASE
    )

    assert renewal.lost == {gone.key}
    assert renewal.cancelled == {asked.key}
    # A claim asked to cancel is still held: its handler needs time to stop.
    for kept in (held, asked):
        assert (await read(kept.job_id)).leased_until == clock.now() + LEASE


async def test_law_8_a_cancel_is_told_at_each_renewal(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.cancel([job_id], by="test")

    for _ in range(3):
        renewal = await store.renew([held.key], worker="w1", lease=LEASE)
        assert renewal.cancelled == {held.key}
        assert renewal.lost == NOTHING


async def test_law_8_a_cancel_of_an_earlier_claim_is_not_told_to_a_later_one(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.cancel([job_id], by="test")
    await store.finish([_outcome.cancelled(held.key)])
    await store.replay([job_id], by="test")
    held = await claim_one()

    renewal = await store.renew([held.key], worker="w1", lease=LEASE)

    assert (renewal.lost, renewal.cancelled) == (NOTHING, NOTHING)


async def test_renewing_nothing_is_a_sign_of_life_and_no_error(store: Store) -> None:
    renewal = await store.renew((), worker="idle", lease=LEASE)

    assert (renewal.lost, renewal.cancelled) == (NOTHING, NOTHING)


async def test_renew_touches_no_other_claim(
    store: Store, enqueue: Enqueue, claim: ClaimSome, clock: FakeClock, read: Read
) -> None:
    await enqueue(2)
    first, second = (await claim(2)).claims
    before = await read(second.job_id)
    clock.advance(1)

    await store.renew([first.key], worker="w1", lease=LEASE)

    assert await read(second.job_id) == before


async def test_thousands_of_claims_are_renewed_in_one_call(
    store: Store, enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    await enqueue(2500)
    held = (await claim(2500)).claims
    gone, kept = held[0].key, [each.key for each in held]
    await store.finish([dead(gone)])
    clock.advance(5)

    renewal = await store.renew(kept, worker="w1", lease=LEASE)

    assert renewal.lost == {gone}
    jobs = (await store.list(Filter(status=Status.RUNNING), limit=5000)).jobs
    assert {job.leased_until for job in jobs} == {clock.now() + LEASE}
    assert len(jobs) == 2499


async def test_an_abandoned_claim_is_marked_and_keeps_its_lease(
    store: Store, enqueue: Enqueue, claim: ClaimSome, clock: FakeClock, read: Read
) -> None:
    await enqueue(2)
    left, kept = (await claim(2)).claims
    clock.advance(1)

    renewal = await store.renew([left.key], worker="w1", lease=LEASE, abandoned=True)

    assert renewal.lost == NOTHING
    job = await read(left.job_id)
    assert job.status is Status.RUNNING
    assert job.leased_until == clock.now() + LEASE
    seen = {each.key: each.abandoned for each in await store.lost(10, worker="w1")}
    assert seen == {left.key: True, kept.key: False}


async def test_abandoned_is_of_one_claim_and_not_of_the_job(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    await enqueue()
    held = await claim_one()
    await store.renew([held.key], worker="w1", lease=LEASE, abandoned=True)
    (seen,) = await store.lost(10, worker="w1")
    await store.finish([_outcome.lost(seen)])

    again = await claim_one()

    assert not again.abandoned
    assert again.losses == 0
    (seen,) = await store.lost(10, worker="w1")
    assert not seen.abandoned


async def test_law_8_the_fence_is_one_for_all_processes(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, open_another: OpenAnother
) -> None:
    another = await open_another()
    await enqueue()
    held = await claim_one()

    assert (await another.renew([held.key], worker="w1", lease=LEASE)).lost == NOTHING
    await another.finish([dead(held.key)])
    assert (await store.renew([held.key], worker="w1", lease=LEASE)).lost == {held.key}


async def test_law_15_renewing_twice_is_safe(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.renew([held.key], worker="w1", lease=LEASE)
    before = await read(job_id)

    await store.renew([held.key], worker="w1", lease=LEASE)

    after = await read(job_id)
    assert after == before


async def test_a_lease_may_be_as_short_as_a_second(
    enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock
) -> None:
    await enqueue()
    held = await claim_one(lease=timedelta(seconds=1))

    assert held.leased_until == clock.now() + timedelta(seconds=1)
