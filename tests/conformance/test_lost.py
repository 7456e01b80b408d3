"""Lost: laws 9, 13 and 17."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

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
    OpenAnother,
    Read,
    retry,
)

SECOND = timedelta(seconds=1)


async def test_law_9_a_claim_is_lost_once_its_lease_ran_out(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, elapse: Elapse
) -> None:
    await enqueue()
    held = await claim_one()

    await elapse(LEASE.total_seconds() + 1)

    (lost,) = await store.lost(10)
    assert lost == held


async def test_law_9_a_lease_that_has_not_run_out_is_never_lost(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, elapse: Elapse
) -> None:
    await elapse(2 * LEASE.total_seconds())
    await enqueue()
    held = await claim_one()

    await elapse(LEASE.total_seconds() - 1)
    assert list(await store.lost(10)) == []
    await elapse(2)
    assert [each.key for each in await store.lost(10)] == [held.key]


async def test_law_9_a_renewed_claim_is_not_lost(
    store: Store, enqueue: Enqueue, claim: ClaimSome, elapse: Elapse
) -> None:
    await enqueue(2)
    renewed, silent = (await claim(2)).claims

    for _ in range(4):
        await elapse(LEASE.total_seconds() / 2)
        await store.renew([renewed.key], worker="w1", lease=LEASE)

    assert [each.key for each in await store.lost(10)] == [silent.key]


async def test_law_9_a_claim_renewed_since_it_was_read_as_lost_is_not_recovered(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, elapse: Elapse, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await elapse(LEASE.total_seconds() + 1)
    (lost,) = await store.lost(10)
    renewal = await store.renew([held.key], worker="w1", lease=LEASE)
    assert renewal.lost == frozenset()

    (settled,) = await store.finish([_outcome.lost(lost)])

    assert (settled.accepted, settled.status) == (False, Status.RUNNING)
    assert settled.claims == held.key.claim
    job = await read(job_id)
    assert (job.status, job.losses, job.errors) == (Status.RUNNING, 0, ())
    (settled,) = await store.finish([_outcome.succeeded(held.key)])
    assert settled.accepted


async def test_law_9_of_several_read_as_lost_only_those_not_renewed_are_recovered(
    store: Store, enqueue: Enqueue, claim: ClaimSome, elapse: Elapse
) -> None:
    await enqueue(5)
    held = (await claim(5)).claims
    await elapse(LEASE.total_seconds() + 1)
    lost = await store.lost(10)
    renewed = {held[1].key, held[3].key}
    await store.renew(renewed, worker="w1", lease=2 * LEASE)

    settled = await store.finish([_outcome.lost(each) for each in lost])

    assert {each.key for each in settled if not each.accepted} == renewed
    assert len(settled) == 5


async def test_law_9_a_long_lease_is_kept_whatever_others_have(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, elapse: Elapse
) -> None:
    await enqueue(2)
    await claim_one(lease=10 * LEASE)
    short = await claim_one()

    await elapse(5 * LEASE.total_seconds())

    assert [each.key for each in await store.lost(10)] == [short.key]


async def test_law_9_of_a_worker_known_to_be_dead_all_claims_are_lost_at_once(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    await enqueue(4)
    theirs = (await claim(2, worker="dead")).claims
    await claim(2, worker="alive")

    found = await store.lost(10, worker="dead")

    assert {each.key for each in found} == {each.key for each in theirs}
    assert {each.worker for each in found} == {"dead"}
    assert list(await store.lost(10, worker="nobody")) == []


async def test_law_9_a_finished_claim_is_not_lost(
    store: Store, enqueue: Enqueue, claim: ClaimSome, elapse: Elapse
) -> None:
    await enqueue(3)
    done, again, _ = (await claim(3)).claims
    await store.finish([_outcome.succeeded(done.key), retry(again.key)])

    assert len(await store.lost(10, worker="w1")) == 1
    await elapse(2 * LEASE.total_seconds())
    assert len(await store.lost(10)) == 1


async def test_lost_changes_nothing(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, elapse: Elapse, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await elapse(2 * LEASE.total_seconds())
    before = await read(job_id)

    for _ in range(3):
        assert [each.key for each in await store.lost(10)] == [held.key]

    assert await read(job_id) == before
    assert (await store.renew([held.key], worker="w1", lease=LEASE)).lost == frozenset()
    assert list(await store.lost(10)) == []


@pytest.mark.parametrize("worker", [None, "w1"])
async def test_law_13_lost_keeps_to_its_limit_and_is_repeated_until_nothing_is_left(
    store: Store, enqueue: Enqueue, claim: ClaimSome, elapse: Elapse, worker: str | None
) -> None:
    await enqueue(7)
    held = {each.key for each in (await claim(7)).claims}
    await elapse(2 * LEASE.total_seconds())

    found = []
    while batch := await store.lost(3, worker=worker):
        assert len(batch) <= 3
        found += [each.key for each in batch]
        await store.finish([_outcome.lost(each) for each in batch])

    assert len(found) == 7
    assert set(found) == held


async def test_a_lost_claim_tells_what_recovery_has_to_know(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    (job_id,) = await enqueue(max_attempts=5, idempotency_key="k", payload='{"n": 1}')
    held = await claim_one()
    await store.finish([retry(held.key)])
    held = await claim_one(alone=True)
    await store.save(held.key, state='{"page": 3}')
    await store.cancel([job_id], by="test")

    (lost,) = await store.lost(10, worker="w1")

    assert lost.key == held.key
    assert (lost.attempts, lost.failures, lost.losses) == (2, 1, 0)
    assert (lost.max_attempts, lost.idempotency_key) == (5, "k")
    assert (lost.payload, lost.state) == ('{"n": 1}', {"page": 3})
    assert (lost.worker, lost.alone, lost.abandoned) == ("w1", True, False)
    assert lost.cancel_requested_at is not None


async def test_law_17_a_fresh_process_recovers_nothing_for_one_lease(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    open_another: OpenAnother,
    elapse: Elapse,
) -> None:
    await enqueue()
    held = await claim_one()
    await elapse(3 * LEASE.total_seconds())
    fresh = await open_another()

    assert list(await fresh.lost(10)) == []
    await fresh.renew((), worker="fresh", lease=LEASE)
    assert list(await fresh.lost(10)) == []
    await elapse(LEASE.total_seconds() / 2, on=fresh)
    assert list(await fresh.lost(10)) == []
    await elapse(LEASE.total_seconds() / 2 + 1, on=fresh)
    assert [each.key for each in await fresh.lost(10)] == [held.key]


async def test_law_17_a_process_that_never_wrote_recovers_nothing(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    open_another: OpenAnother,
    elapse: Elapse,
) -> None:
    silent = await open_another()
    await enqueue()
    await claim_one()

    await elapse(3 * LEASE.total_seconds())

    assert list(await silent.lost(10)) == []
    assert len(await store.lost(10)) == 1


async def test_law_17_a_gap_longer_than_a_third_of_the_lease_starts_the_grace_again(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    elapse: Elapse,
    clock: FakeClock,
) -> None:
    await enqueue()
    await claim_one()
    await elapse(2 * LEASE.total_seconds())
    assert len(await store.lost(10)) == 1

    clock.advance(LEASE / 3 + SECOND)
    assert list(await store.lost(10)) == []
    await elapse(LEASE.total_seconds() - 1)
    assert list(await store.lost(10)) == []
    await elapse(2)
    assert len(await store.lost(10)) == 1


async def test_law_17_a_gap_shorter_than_a_third_of_the_lease_is_none(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    elapse: Elapse,
    clock: FakeClock,
) -> None:
    await enqueue()
    await claim_one()
    await elapse(2 * LEASE.total_seconds())

    clock.advance(LEASE / 3 - SECOND)

    assert len(await store.lost(10)) == 1


@pytest.mark.parametrize("hours", [1, 24 * 365])
async def test_law_17_a_wall_clock_that_jumped_forwards_recovers_nothing(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    elapse: Elapse,
    clock: FakeClock,
    hours: int,
) -> None:
    await elapse(2 * LEASE.total_seconds())
    await enqueue()
    held = await claim_one()
    await elapse(LEASE.total_seconds() / 4)

    clock.jump(timedelta(hours=hours))

    # By the wall clock the lease is long over; its holder has only not renewed yet.
    assert list(await store.lost(10)) == []
    await store.renew([held.key], worker="w1", lease=LEASE)
    await elapse(LEASE.total_seconds() / 2)
    assert list(await store.lost(10)) == []


async def test_law_17_after_a_jump_a_silent_claim_is_lost_one_lease_later(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    elapse: Elapse,
    clock: FakeClock,
) -> None:
    await elapse(2 * LEASE.total_seconds())
    await enqueue()
    held = await claim_one()

    clock.jump(3600)
    await elapse(LEASE.total_seconds() + 1)

    assert [each.key for each in await store.lost(10)] == [held.key]


async def test_law_17_after_a_jump_back_a_lease_lasts_until_the_clock_is_there_again(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    elapse: Elapse,
    clock: FakeClock,
) -> None:
    await enqueue()
    held = await claim_one()

    clock.jump(-100)
    await elapse(LEASE.total_seconds() + 1)
    assert list(await store.lost(10)) == []
    await elapse(100)
    assert [each.key for each in await store.lost(10)] == [held.key]


async def test_law_17_a_worker_known_to_be_dead_is_excepted(
    enqueue: Enqueue, claim_one: ClaimOne, open_another: OpenAnother, clock: FakeClock
) -> None:
    await enqueue()
    held = await claim_one(worker="dead")
    fresh = await open_another()
    clock.jump(-3600)

    assert [each.key for each in await fresh.lost(10, worker="dead")] == [held.key]


async def test_law_17_a_suspended_machine_gives_its_claims_a_lease_to_renew(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    elapse: Elapse,
    clock: FakeClock,
) -> None:
    await elapse(2 * LEASE.total_seconds())
    await enqueue()
    held = await claim_one()

    # Suspended: the monotonic clock may stand still meanwhile, the wall clock doesn't.
    clock.jump(8 * 3600)
    await store.renew((), worker="other", lease=LEASE)

    assert list(await store.lost(10)) == []
    assert (await store.renew([held.key], worker="w1", lease=LEASE)).lost == frozenset()


async def test_b06_a_claim_that_has_not_started_its_handler_is_not_swept(
    store: Store, enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    await enqueue(100)
    await claim(100)

    for _ in range(30):
        clock.advance(0.01)
        await store.renew((), worker="sweeper", lease=LEASE)
        assert list(await store.lost(1000)) == []


async def test_law_17_what_was_read_while_the_machine_slept_is_no_answer(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    elapse: Elapse,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await elapse(2 * LEASE.total_seconds())
    await enqueue()
    await claim_one()
    await elapse(LEASE.total_seconds() / 4)
    look = clock.now

    def look_and_sleep() -> datetime:
        now = look()
        monkeypatch.undo()
        clock.jump(8 * 3600)
        return now

    # The first look is whether the grace is over, and it is; then comes the read.
    monkeypatch.setattr(clock, "now", look_and_sleep)

    assert list(await store.lost(10)) == []
