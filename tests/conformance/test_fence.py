"""The fence: law 6, and law 15 where a finish is repeated."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import ClaimKey, Status
from rowlock._store import Settled, Store
from rowlock.testing import FakeClock

from .given import (
    ENDS,
    LEASE,
    ClaimOne,
    ClaimSome,
    Enqueue,
    FinishOne,
    JobIn,
    OpenAnother,
    Read,
    dead,
    key_of,
    retry,
)

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("end", ENDS)
async def test_law_6_a_claim_that_was_taken_over_changes_nothing(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    end: str,
) -> None:
    (job_id,) = await enqueue()
    old = await claim_one(worker="w1")
    await store.finish([_outcome.lost(old)])
    new = await claim_one(worker="w2", suspects=True)
    before = await read(job_id)

    settled = await finish_one(ENDS[end](old.key))

    assert settled == Settled(
        key=old.key, accepted=False, status=Status.RUNNING, claims=2
    )
    assert await read(job_id) == before
    assert (await finish_one(_outcome.succeeded(new.key))).accepted


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.RUNNING])
@pytest.mark.parametrize("end", ENDS)
async def test_law_6_what_is_not_running_cannot_be_finished(
    job_in: JobIn, finish_one: FinishOne, read: Read, status: Status, end: str
) -> None:
    before = await read(await job_in(status))

    settled = await finish_one(ENDS[end](key_of(before)))

    assert settled == Settled(
        key=key_of(before), accepted=False, status=status, claims=before.claims
    )
    assert await read(before.id) == before


@pytest.mark.parametrize("end", ENDS)
async def test_law_6_a_retry_that_waits_cannot_be_finished_by_its_old_claim(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read, end: str
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await finish_one(retry(held.key, delay=60))
    before = await read(job_id)

    settled = await finish_one(ENDS[end](held.key))

    assert (settled.accepted, settled.status) == (False, Status.PENDING)
    assert await read(job_id) == before


async def test_law_6_a_job_that_is_gone_is_an_answer_too(
    store: Store, job_in: JobIn, finish_one: FinishOne
) -> None:
    key = ClaimKey(await job_in(Status.FAILED), 1)
    await store.delete([key.job_id])

    settled = await finish_one(_outcome.succeeded(key))

    assert settled == Settled(key=key, accepted=False, status=None, claims=None)
    assert (await store.list(Filter())).jobs == ()


async def test_law_6_the_lease_may_be_over_as_long_as_the_claim_holds(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, clock: FakeClock
) -> None:
    await enqueue()
    held = await claim_one()
    clock.advance(100 * LEASE)

    assert (await finish_one(_outcome.succeeded(held.key))).accepted


async def test_law_6_answers_come_in_the_order_given(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    await enqueue(5)
    a, b, c, d, e = (held.key for held in (await claim(5)).claims)
    await store.finish([_outcome.succeeded(b)])
    never = ClaimKey(999_999_999, 1)

    settled = await store.finish(
        [
            _outcome.succeeded(e),
            _outcome.succeeded(b),
            dead(a),
            dead(never),
            retry(d),
            _outcome.cancelled(c),
        ]
    )

    assert [(each.key, each.accepted, each.status) for each in settled] == [
        (e, True, "succeeded"),
        (b, False, "succeeded"),
        (a, True, "failed"),
        (never, False, None),
        (d, True, "pending"),
        (c, True, "cancelled"),
    ]


async def test_law_6_of_two_outcomes_for_one_claim_the_first_counts(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()

    settled = await store.finish(
        [_outcome.succeeded(held.key, "1"), dead(held.key), retry(held.key)]
    )

    assert [each.accepted for each in settled] == [True, False, False]
    job = await read(job_id)
    assert (job.status, job.result, job.failures) == (Status.SUCCEEDED, 1, 0)


async def test_law_6_an_empty_batch_is_no_error(store: Store) -> None:
    assert list(await store.finish([])) == []


async def test_law_6_the_fence_is_one_for_all_processes(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    open_another: OpenAnother,
) -> None:
    another = await open_another()
    await enqueue()
    held = await claim_one()

    (theirs,) = await another.finish([_outcome.succeeded(held.key)])

    assert theirs.accepted
    assert not (await finish_one(dead(held.key))).accepted


@pytest.mark.parametrize("end", ENDS)
async def test_law_15_repeating_a_finish_is_safe(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read, end: str
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    first = await finish_one(ENDS[end](held.key))
    before = await read(job_id)

    again = await finish_one(ENDS[end](held.key))

    assert first.accepted
    assert (again.accepted, again.status) == (False, first.status)
    assert await read(job_id) == before
