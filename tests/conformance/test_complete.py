"""A claim in its handler's own transaction: completed, held, and what became of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import ClaimLost, UsageError, WrongConnection, _outcome
from rowlock._filter import Filter
from rowlock._job import ClaimKey, Status
from rowlock._store import Fate, Retention, Store
from rowlock.testing import FakeClock

from .given import (
    LEASE,
    ClaimOne,
    Elapse,
    Enqueue,
    FinishOne,
    Read,
    new_job,
    retry,
)
from .stores import Connection

SECOND = timedelta(seconds=1)


async def fate_of(store: Store, key: ClaimKey) -> Fate:
    (fate,) = await store.lent.settled([key])
    return fate


async def test_a_completion_stands_when_its_transaction_commits(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    read: Read,
    lend: Connection,
    clock: FakeClock,
) -> None:
    (job_id,) = await enqueue(meta={"trace": "t1"})
    held = await claim_one()
    clock.advance(3)

    outcome = _outcome.succeeded(held.key, '{"sum": 1}', meta={"a": 1})
    ids = store.lent.complete_sync(outcome, lend, progress='{"fraction": 1.0}')
    lend.commit()

    assert tuple(ids) == ()
    assert await fate_of(store, held.key) is Fate.SUCCEEDED
    job = await read(job_id)
    assert job.status is Status.SUCCEEDED
    assert job.result == {"sum": 1}
    assert job.meta == {"trace": "t1", "a": 1}
    assert job.progress == {"fraction": 1.0}
    assert job.finished_at == job.updated_at == clock.now()
    assert job.started_at == clock.now() - 3 * SECOND
    assert job.leased_until is None
    assert job.worker == "w1"
    assert (job.claims, job.attempts, job.failures, job.losses) == (1, 1, 0, 0)


async def test_a_completion_is_gone_when_its_transaction_rolls_back(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read, lend: Connection
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()

    store.lent.complete_sync(_outcome.succeeded(held.key), lend)
    lend.rollback()

    assert await fate_of(store, held.key) is Fate.RUNNING
    assert (await read(job_id)).status is Status.RUNNING
    renewal = await store.renew([held.key], worker="w1", lease=LEASE)
    assert not renewal.lost


async def test_law_6_a_completion_without_its_claim_fails_the_whole_transaction(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    lend: Connection,
) -> None:
    (job_id,) = await enqueue()
    lost = await claim_one()
    await finish_one(retry(lost.key))
    second = await claim_one(worker="w2")

    (effect,) = store.lent.enqueue_sync([new_job(task="effect")], lend)
    with pytest.raises(ClaimLost) as error:
        store.lent.complete_sync(_outcome.succeeded(lost.key), lend)
    # As who catches everything may do.
    lend.commit()

    assert (error.value.job_id, error.value.claim) == lost.key
    assert effect is not None
    assert list(await store.get([effect])) == []
    assert await fate_of(store, lost.key) is Fate.LOST
    assert await fate_of(store, second.key) is Fate.RUNNING
    assert (await read(job_id)).claims == second.key.claim


async def test_law_6_a_job_is_completed_once(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, lend: Connection
) -> None:
    await enqueue()
    held = await claim_one()
    store.lent.complete_sync(_outcome.succeeded(held.key), lend)
    lend.commit()

    with pytest.raises(ClaimLost):
        store.lent.complete_sync(_outcome.succeeded(held.key), lend)
    (refused,) = await store.finish([_outcome.succeeded(held.key)])

    assert not refused.accepted
    assert refused.status is Status.SUCCEEDED


@pytest.mark.parametrize("commits", [True, False])
async def test_law_7_a_completion_and_what_it_spawns_are_one(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    read: Read,
    lend: Connection,
    *,
    commits: bool,
) -> None:
    (job_id,) = await enqueue(idempotency_key="k")
    held = await claim_one()
    # Its successor has its own key, and another has one that is held.
    await enqueue(task="other", idempotency_key="held")
    spawned = (
        new_job(idempotency_key="k"),
        new_job(task="other", idempotency_key="held"),
        new_job(task="other"),
    )

    outcome = _outcome.succeeded(held.key, spawned=spawned)
    ids = store.lent.complete_sync(outcome, lend)
    (lend.commit if commits else lend.rollback)()

    assert [each is None for each in ids] == [False, True, False]
    found = {job.id for job in (await store.list(Filter())).jobs}
    assert ({ids[0], ids[2]} <= found) is commits
    status = Status.SUCCEEDED if commits else Status.RUNNING
    assert (await read(job_id)).status is status


async def test_law_21_a_cancel_comes_too_late_for_a_completion(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read, lend: Connection
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.cancel([job_id], by="test")

    store.lent.complete_sync(_outcome.succeeded(held.key, "1"), lend)
    lend.commit()

    job = await read(job_id)
    assert (job.status, job.result) == (Status.SUCCEEDED, 1)


async def test_law_8_a_claim_whose_lease_ran_out_unnoticed_is_completed(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    read: Read,
    lend: Connection,
    elapse: Elapse,
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await elapse(LEASE.total_seconds() * 2)

    store.lent.complete_sync(_outcome.succeeded(held.key), lend)
    lend.commit()

    assert (await read(job_id)).status is Status.SUCCEEDED
    assert list(await store.lost(10)) == []


async def test_a_completed_job_that_was_pruned_is_a_success(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    lend: Connection,
    clock: FakeClock,
) -> None:
    await enqueue()
    held = await claim_one()
    store.lent.complete_sync(_outcome.succeeded(held.key), lend)
    lend.commit()
    clock.advance(timedelta(days=400))

    nothing = timedelta(0)
    retention = Retention(succeeded=nothing, cancelled=nothing, failed=nothing)
    while (await store.prune(retention, limit=10)).deleted:
        pass

    assert await fate_of(store, held.key) is Fate.SUCCEEDED


async def test_a_connection_of_no_known_kind_is_refused(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, lend: Connection
) -> None:
    await enqueue()
    held = await claim_one()
    outcome = _outcome.succeeded(held.key)

    with pytest.raises(WrongConnection):
        store.lent.complete_sync(outcome, object())
    with pytest.raises(WrongConnection, match="complete_sync"):
        await store.lent.complete(outcome, lend)
    with pytest.raises(UsageError):
        store.lent.hold_sync(held.key, object())

    lend.commit()
    assert await fate_of(store, held.key) is Fate.RUNNING


async def test_what_became_of_many_is_told_in_the_order_asked(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, lend: Connection
) -> None:
    await enqueue(3)
    first, second, third = [await claim_one() for _ in range(3)]
    await store.finish([retry(second.key)])
    store.lent.complete_sync(_outcome.succeeded(third.key), lend)
    lend.commit()

    fates = await store.lent.settled([third.key, first.key, second.key])

    assert list(fates) == [Fate.SUCCEEDED, Fate.RUNNING, Fate.LOST]
