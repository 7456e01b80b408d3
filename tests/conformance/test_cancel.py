"""Cancel: law 21 on its way in, and an answer for each id."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._job import ClaimKey, Status
from rowlock._store import Answer, Store
from rowlock.testing import FakeClock

from .given import ClaimOne, ClaimSome, Elapse, Enqueue, JobIn, Read, retry


async def test_a_pending_job_is_cancelled_at_once(
    store: Store, enqueue: Enqueue, claim: ClaimSome, clock: FakeClock, read: Read
) -> None:
    (job_id,) = await enqueue()
    clock.advance(4)

    (answer,) = await store.cancel([job_id], by="ada")

    assert answer == Answer(job_id=job_id, done=True, status=Status.CANCELLED)
    job = await read(job_id)
    assert job.status is Status.CANCELLED
    assert job.finished_at == clock.now()
    assert job.updated_at == clock.now()
    assert (await claim()).claims == ()


async def test_the_cancel_of_a_pending_job_names_the_operator(
    store: Store, enqueue: Enqueue, read: Read
) -> None:
    (job_id,) = await enqueue()

    await store.cancel([job_id], by="ada")

    (act,) = (await read(job_id)).errors
    assert "ada" in act.values()


async def test_a_running_job_is_asked(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    clock.advance(4)

    (answer,) = await store.cancel([job_id], by="ada")

    assert answer == Answer(job_id=job_id, done=True, status=Status.RUNNING)
    job = await read(job_id)
    assert job.status is Status.RUNNING
    assert job.cancel_requested_at == clock.now()
    assert (job.leased_until, job.claims) == (held.leased_until, 1)
    assert job.finished_at is None


async def test_the_cancel_of_a_running_job_names_the_operator(
    store: Store, job_in: JobIn, read: Read
) -> None:
    job_id = await job_in(Status.RUNNING)

    await store.cancel([job_id], by="ada")

    (act,) = (await read(job_id)).errors
    assert "ada" in act.values()


async def test_asking_twice_keeps_the_first_instant(
    store: Store, job_in: JobIn, clock: FakeClock, read: Read
) -> None:
    job_id = await job_in(Status.RUNNING)
    asked_at = clock.now()
    await store.cancel([job_id], by="ada")
    clock.advance(60)

    (answer,) = await store.cancel([job_id], by="bob")

    assert answer.status is Status.RUNNING
    assert (await read(job_id)).cancel_requested_at == asked_at


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
async def test_what_is_finished_is_not_cancelled(
    store: Store, job_in: JobIn, read: Read, status: Status
) -> None:
    job_id = await job_in(status)
    before = await read(job_id)

    (answer,) = await store.cancel([job_id], by="ada")

    assert answer == Answer(job_id=job_id, done=False, status=status)
    assert str(answer) == f"already {status}"
    assert await read(job_id) == before


async def test_what_never_was_is_not_found(store: Store) -> None:
    (answer,) = await store.cancel([999_999_999], by="ada")

    assert answer == Answer(job_id=999_999_999, done=False, status=None)
    assert str(answer) == "not found"


async def test_answers_come_in_the_order_given(store: Store, job_in: JobIn) -> None:
    running = await job_in(Status.RUNNING)
    failed = await job_in(Status.FAILED)
    pending = await job_in(Status.PENDING)

    answers = await store.cancel([pending, 999_999_999, failed, running], by="ada")

    assert [(each.job_id, each.done, each.status) for each in answers] == [
        (pending, True, "cancelled"),
        (999_999_999, False, None),
        (failed, False, "failed"),
        (running, True, "running"),
    ]
    assert list(await store.cancel([], by="ada")) == []


async def test_a_retry_that_waits_is_cancelled_at_once(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.finish([retry(held.key, delay=60)])

    (answer,) = await store.cancel([job_id], by="ada")

    assert (answer.done, answer.status) == (True, Status.CANCELLED)
    job = await read(job_id)
    assert (job.attempts, job.failures) == (1, 1)


async def test_law_21_a_lost_claim_whose_cancel_was_asked_ends_cancelled(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, elapse: Elapse, read: Read
) -> None:
    (job_id,) = await enqueue()
    await claim_one()
    await store.cancel([job_id], by="ada")
    await elapse(61)
    (lost,) = await store.lost(10)

    (settled,) = await store.finish([_outcome.lost(lost)])

    assert (settled.accepted, settled.status) == (True, Status.CANCELLED)
    job = await read(job_id)
    assert (job.status, job.losses) == (Status.CANCELLED, 1)
    assert [entry["event"] for entry in job.errors] == ["cancel", "lost"]


async def test_law_21_a_cancel_asked_between_the_reading_and_the_recovery_counts(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, elapse: Elapse
) -> None:
    (job_id,) = await enqueue()
    await claim_one()
    await elapse(61)
    (lost,) = await store.lost(10)
    await store.cancel([job_id], by="ada")

    (settled,) = await store.finish([_outcome.lost(lost)])

    assert (settled.accepted, settled.status) == (True, Status.CANCELLED)


async def test_thousands_are_cancelled_in_one_call(
    store: Store, enqueue: Enqueue
) -> None:
    ids = await enqueue(2500)

    answers = await store.cancel(ids, by="ada")

    assert [each.job_id for each in answers] == ids
    assert all(each.done for each in answers)


async def test_law_21_the_holders_of_claims_may_ask_which_are_to_be_cancelled(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    ids = await enqueue(4)
    held = [each.key for each in (await claim(4)).claims]
    assert await store.cancel_requested(held) == frozenset()

    await store.cancel([ids[1], ids[3]], by="ada")

    assert await store.cancel_requested(held) == {held[1], held[3]}
    # Only what is asked for is told.
    assert await store.cancel_requested(held[:2]) == {held[1]}
    assert await store.cancel_requested([]) == frozenset()


async def test_a_claim_that_holds_no_longer_is_not_to_be_cancelled(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    (first, second) = await enqueue(2)
    old = await claim_one()
    await store.finish([retry(old.key, delay=900)])
    ended = await claim_one()
    assert (old.key.job_id, ended.key.job_id) == (first, second)
    await store.cancel([second], by="ada")
    await store.finish([_outcome.cancelled(ended.key)])
    await store.move([first], by="ada", delay=timedelta(0))
    held = await claim_one()
    assert held.key.job_id == first
    await store.cancel([first], by="ada")

    keys = [old.key, ended.key, held.key, ClaimKey(10**9, 1)]
    assert await store.cancel_requested(keys) == {held.key}


async def test_asking_for_cancels_extends_and_changes_nothing(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.cancel([job_id], by="ada")
    before = await read(job_id)
    clock.advance(9)

    await store.cancel_requested([held.key])

    assert await read(job_id) == before
