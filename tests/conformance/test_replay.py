"""Replay: what it clears, what it keeps, and whom it lets through (law 10)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import Job, Status
from rowlock._store import Answer, Retention, Store
from rowlock.testing import FakeClock

from .given import (
    ERROR,
    ClaimOne,
    ClaimSome,
    Enqueue,
    FinishOne,
    JobIn,
    Read,
    dead,
    new_job,
    retry,
)


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
async def test_a_dead_letter_is_due_at_once(
    store: Store,
    job_in: JobIn,
    claim_one: ClaimOne,
    clock: FakeClock,
    read: Read,
    status: Status,
) -> None:
    job_id = await job_in(status)
    clock.advance(1000)

    (answer,) = await store.replay([job_id], by="ada")

    assert answer == Answer(job_id=job_id, done=True, status=Status.PENDING)
    job = await read(job_id)
    assert (job.status, job.run_at) == (Status.PENDING, clock.now())
    assert (await claim_one()).job_id == job_id


@pytest.fixture
async def eventful(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock, read: Read
) -> Job:
    """A job with a loss, a failure, a saved state and a cancel, long expired."""
    (job_id,) = await enqueue(
        max_attempts=9, expires_at=clock.now() + timedelta(hours=1)
    )
    await store.finish([_outcome.lost(await claim_one())])
    await store.finish([retry((await claim_one(suspects=True)).key)])
    held = await claim_one()
    await store.save(held.key, state='{"page": 3}')
    await store.cancel([job_id], by="ada")
    await store.finish([dead(held.key)])
    clock.advance(7200)
    job = await read(job_id)
    assert (job.status, job.losses) == (Status.CANCELLED, 1)
    return job


async def test_replay_clears_what_belongs_to_the_life_before(
    store: Store, eventful: Job, claim_one: ClaimOne, read: Read
) -> None:
    await store.replay([eventful.id], by="bob")

    job = await read(eventful.id)
    assert (job.failures, job.losses) == (0, 0)
    assert job.cancel_requested_at is None
    assert job.expires_at is None
    assert job.finished_at is None
    assert job.leased_until is None
    # What would have expired is worth running, since somebody asked for it.
    assert (await claim_one()).attempts == 4


async def test_replay_keeps_what_tells_of_the_life_before(
    store: Store, eventful: Job, read: Read
) -> None:
    await store.replay([eventful.id], by="bob")

    job = await read(eventful.id)
    assert (job.id, job.claims, job.attempts) == (eventful.id, 3, 3)
    assert job.state == {"page": 3}
    assert job.errors[: len(eventful.errors)] == eventful.errors
    assert job.created_at == eventful.created_at
    assert job.payload == eventful.payload


async def test_replay_names_the_operator(
    store: Store, job_in: JobIn, read: Read
) -> None:
    job_id = await job_in(Status.FAILED)
    before = (await read(job_id)).errors

    await store.replay([job_id], by="ada")

    *kept, act = (await read(job_id)).errors
    assert tuple(kept) == before
    assert "ada" in act.values()


async def test_replay_after_a_delay(
    store: Store, job_in: JobIn, claim: ClaimSome, clock: FakeClock, read: Read
) -> None:
    job_id = await job_in(Status.FAILED)

    await store.replay([job_id], by="ada", delay=timedelta(seconds=30))

    assert (await read(job_id)).run_at == clock.now() + timedelta(seconds=30)
    assert (await claim()).claims == ()
    clock.advance(30)
    assert len((await claim()).claims) == 1


async def test_replayed_jobs_are_due_one_after_the_other(
    store: Store, job_in: JobIn, read: Read, clock: FakeClock
) -> None:
    ids = [await job_in(Status.FAILED) for _ in range(3)]
    order = [ids[2], ids[0], 999_999, ids[1], ids[0]]

    answers = await store.replay(
        order, by="ada", delay=timedelta(seconds=60), pace=timedelta(seconds=2)
    )

    assert [answer.done for answer in answers] == [True, True, False, True, True]
    due = [(await read(job_id)).run_at - clock.now() for job_id in ids]
    assert [each.total_seconds() for each in due] == [62, 66, 60]
    told = (await read(ids[1])).errors[-1]
    assert told["run_at"] == f"{clock.now() + due[1]:%Y-%m-%dT%H:%M:%S.%fZ}"


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING, Status.SUCCEEDED])
async def test_what_is_no_dead_letter_is_not_replayed(
    store: Store, job_in: JobIn, read: Read, status: Status
) -> None:
    job_id = await job_in(status)
    before = await read(job_id)

    (answer,) = await store.replay([job_id], by="ada")

    assert answer == Answer(job_id=job_id, done=False, status=status)
    assert await read(job_id) == before


async def test_answers_come_in_the_order_given(store: Store, job_in: JobIn) -> None:
    succeeded = await job_in(Status.SUCCEEDED)
    failed = await job_in(Status.FAILED)
    cancelled = await job_in(Status.CANCELLED)

    answers = await store.replay([cancelled, succeeded, 999_999_999, failed], by="ada")

    assert [(each.job_id, each.done, each.status) for each in answers] == [
        (cancelled, True, "pending"),
        (succeeded, False, "succeeded"),
        (999_999_999, False, None),
        (failed, True, "pending"),
    ]
    assert list(await store.replay([], by="ada")) == []


async def test_b149_a_replayed_job_has_its_attempts_again(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
) -> None:
    (job_id,) = await enqueue(max_attempts=2)
    for _ in range(2):
        await finish_one(_outcome.failed(await claim_one(), ERROR, timedelta(0)))
    assert (await read(job_id)).status is Status.FAILED
    await store.replay([job_id], by="ada")

    held = await claim_one()
    assert (held.failures, held.attempts) == (0, 3)
    await finish_one(_outcome.failed(held, ERROR, timedelta(0)))
    assert (await read(job_id)).status is Status.PENDING
    await finish_one(_outcome.failed(await claim_one(), ERROR, timedelta(0)))
    assert (await read(job_id)).status is Status.FAILED


async def test_b150_a_job_that_fails_again_is_one_entry_with_its_history(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
) -> None:
    (job_id,) = await enqueue(max_attempts=1)
    await store.finish([dead((await claim_one()).key)])
    for _ in range(3):
        await store.replay([job_id], by="ada")
        (again,) = await store.replay([job_id], by="double click")
        assert (again.done, again.status) == (False, Status.PENDING)
        await store.finish([dead((await claim_one()).key)])

    page = await store.list(Filter(status=Status.FAILED))

    assert [job.id for job in page.jobs] == [job_id]
    failures = [error for error in page.jobs[0].errors if "type" in error]
    assert [error["message"] for error in failures if error.get("message")] == [
        "out of stock"
    ] * 4


async def test_law_10_a_key_held_by_an_unfinished_job_blocks_the_replay(
    store: Store, job_in: JobIn, enqueue: Enqueue, read: Read
) -> None:
    old = await job_in(Status.FAILED, idempotency_key="k")
    (new,) = await enqueue(idempotency_key="k")
    before = await read(old)

    (answer,) = await store.replay([old], by="ada")

    assert answer == Answer(
        job_id=old, done=False, status=Status.FAILED, blocked_by=new
    )
    assert str(answer) == f"blocked by {new}"
    assert await read(old) == before


async def test_law_10_the_key_of_another_task_blocks_nothing(
    store: Store, job_in: JobIn
) -> None:
    old = await job_in(Status.FAILED, idempotency_key="k")
    await store.enqueue([new_job(task="another", idempotency_key="k")])

    (answer,) = await store.replay([old], by="ada")

    assert answer.done


async def test_law_10_of_several_with_one_key_the_newest_goes(
    store: Store, job_in: JobIn, read: Read
) -> None:
    old, middle, new = [
        await job_in(Status.FAILED, idempotency_key="k") for _ in range(3)
    ]
    apart = await job_in(Status.FAILED, idempotency_key="other")

    answers = await store.replay([old, new, apart, middle], by="ada")

    assert [(each.job_id, each.done, each.blocked_by) for each in answers] == [
        (old, False, new),
        (new, True, None),
        (apart, True, None),
        (middle, False, new),
    ]
    assert (await read(old)).status is Status.FAILED
    assert (await read(new)).status is Status.PENDING


async def test_law_10_a_dead_letter_is_replayed_though_a_newer_one_is_not_named(
    store: Store, job_in: JobIn
) -> None:
    old = await job_in(Status.FAILED, idempotency_key="k")
    await job_in(Status.CANCELLED, idempotency_key="k")

    (answer,) = await store.replay([old], by="ada")

    assert answer.done


async def test_law_10_the_key_is_held_again_after_a_replay(
    store: Store, job_in: JobIn
) -> None:
    job_id = await job_in(Status.FAILED, idempotency_key="k")
    await store.replay([job_id], by="ada")

    assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]


async def test_dead_letters_without_a_key_all_go(store: Store, job_in: JobIn) -> None:
    ids = [await job_in(Status.FAILED) for _ in range(4)]

    assert all(each.done for each in await store.replay(ids, by="ada"))


async def test_an_expired_job_can_be_replayed(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock
) -> None:
    (job_id,) = await enqueue(expires_at=clock.now() + timedelta(seconds=1))
    clock.advance(2)
    await store.prune(Retention(), limit=10)

    (answer,) = await store.replay([job_id], by="ada")

    assert answer.done
    assert (await claim_one()).job_id == job_id


async def test_thousands_are_replayed_in_one_call(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    ids = await enqueue(2500)
    await store.cancel(ids, by="ada")

    answers = await store.replay(ids, by="ada")

    assert [each.job_id for each in answers] == ids
    assert all(each.done for each in answers)
    assert len((await claim(3000)).claims) == 2500
