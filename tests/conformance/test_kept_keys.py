"""Law 10 where a job keeps its key after its end: `idempotency_for`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import ClaimKey, Job, Status
from rowlock._store import Pruned, Retention, Store
from rowlock.testing import FakeClock

from .given import ClaimOne, Enqueue, JobIn, Read, dead, new_job

HOUR = timedelta(hours=1)
ENDS = [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED]
KEPT = {"idempotency_key": "k", "idempotency_for": HOUR}

ends = pytest.mark.parametrize("status", ENDS)


async def prune_all(store: Store, retention: Retention) -> int:
    """Prune until nothing is left, a job at a time; how often it was called."""
    for calls in range(1, 100):
        pruned = await store.prune(retention, limit=1)
        assert max(pruned.expired, pruned.deleted, pruned.freed) <= 1
        if pruned == Pruned(expired=0, deleted=0):
            return calls
    raise AssertionError(pruned)


@ends
async def test_law_10_a_key_is_kept_for_a_while_after_the_end(
    store: Store, job_in: JobIn, clock: FakeClock, read: Read, status: Status
) -> None:
    first = await job_in(status, **KEPT)
    ended = await read(first)
    assert ended.key_until == (ended.finished_at or clock.now()) + HOUR

    # Whoever asks: the one that came first has said for how long.
    assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]
    clock.advance(HOUR - timedelta(seconds=1))
    assert list(await store.enqueue([new_job(**KEPT)])) == [None]
    clock.advance(1)
    second, third = await store.enqueue([new_job(idempotency_key="k")] * 2)

    assert second is not None
    assert second > first
    assert third is None
    assert (await read(first)).key_until is None
    assert (await read(first)).status is status


@ends
async def test_law_10_a_kept_key_is_freed_by_pruning_and_its_job_stays(
    store: Store, job_in: JobIn, clock: FakeClock, read: Read, status: Status
) -> None:
    first = await job_in(status, **KEPT)
    await prune_all(store, Retention())
    assert (await read(first)).key_until is not None
    clock.advance(HOUR)

    await prune_all(store, Retention())

    assert (await read(first)).key_until is None
    assert (await read(first)).status is status
    assert None not in await store.enqueue([new_job(idempotency_key="k")])


@ends
async def test_law_12_a_job_stays_while_it_keeps_its_key_and_goes_after_that(
    store: Store, job_in: JobIn, clock: FakeClock, status: Status
) -> None:
    kept = timedelta(days=9)
    first = await job_in(status, idempotency_key="k", idempotency_for=kept)
    other = await job_in(status)
    clock.advance(kept - timedelta(seconds=1))

    await prune_all(store, Retention(succeeded=0, cancelled=0, failed=0))

    assert [job.id for job in await store.get([first, other])] == [first]
    assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]
    clock.advance(1)
    await prune_all(store, Retention(succeeded=0, cancelled=0, failed=0))
    assert not await store.get([first])
    assert None not in await store.enqueue([new_job(idempotency_key="k")])


async def test_law_13_keys_are_freed_in_batches(
    store: Store, job_in: JobIn, clock: FakeClock
) -> None:
    for number in range(5):
        await job_in(
            Status.SUCCEEDED, idempotency_key=f"k{number}", idempotency_for=HOUR
        )
    clock.advance(HOUR)

    freed = [(await store.prune(Retention(), limit=2)).freed for _ in range(4)]

    assert freed == [2, 2, 1, 0]


async def test_law_10_who_never_ran_keeps_no_key(
    store: Store, enqueue: Enqueue, clock: FakeClock, read: Read
) -> None:
    (first,) = await enqueue(**KEPT, expires_at=clock.now() + timedelta(seconds=1))
    clock.advance(1)

    assert None not in await store.enqueue([new_job(**KEPT)])
    assert (await read(first)).status is Status.CANCELLED


async def test_law_10_a_job_expired_by_pruning_keeps_no_key(
    store: Store, enqueue: Enqueue, clock: FakeClock
) -> None:
    await enqueue(**KEPT, expires_at=clock.now() + timedelta(seconds=1))
    clock.advance(1)
    await store.prune(Retention(), limit=10)

    assert None not in await store.enqueue([new_job(idempotency_key="k")])


async def test_law_10_a_pending_job_that_is_cancelled_keeps_its_key(
    store: Store, enqueue: Enqueue, read: Read
) -> None:
    (first,) = await enqueue(**KEPT)

    (answer,) = await store.cancel([first], by="ada")

    assert (answer.done, answer.status) == (True, Status.CANCELLED)
    job = await read(first)
    assert (job.status, job.errors[-1]["by"]) == (Status.CANCELLED, "ada")
    assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
async def test_a_job_that_keeps_its_key_is_replayed_and_keeps_it_again(
    store: Store,
    job_in: JobIn,
    claim_one: ClaimOne,
    clock: FakeClock,
    read: Read,
    status: Status,
) -> None:
    first = await job_in(status, **KEPT)
    clock.advance(HOUR / 2)

    (answer,) = await store.replay([first], by="ada")

    assert (answer.done, answer.status) == (True, Status.PENDING)
    assert (await read(first)).key_until is None
    assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]
    clock.advance(HOUR)
    held = await claim_one()
    await store.finish([_outcome.succeeded(held.key, "1")])
    job = await read(first)
    assert (job.status, job.result, job.key_until) == (
        Status.SUCCEEDED,
        1,
        clock.now() + HOUR,
    )
    assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
async def test_a_job_whose_key_is_free_again_keeps_it_anew_after_a_replay(
    store: Store,
    job_in: JobIn,
    claim_one: ClaimOne,
    clock: FakeClock,
    read: Read,
    status: Status,
) -> None:
    first = await job_in(status, **KEPT)
    clock.advance(HOUR)
    await prune_all(store, Retention())

    (answer,) = await store.replay([first], by="ada")

    assert answer.done
    held = await claim_one()
    await store.finish([dead(held.key)])
    assert (await read(first)).key_until == clock.now() + HOUR


async def test_law_10_a_replay_is_blocked_by_the_job_that_keeps_the_key(
    store: Store, job_in: JobIn, clock: FakeClock
) -> None:
    older = await job_in(Status.FAILED, idempotency_key="k")
    keeper = await job_in(Status.SUCCEEDED, **KEPT)

    (answer,) = await store.replay([older], by="ada")

    assert (answer.done, answer.blocked_by) == (False, keeper)
    assert answer.status is Status.FAILED
    # Nobody has pruned: the key is free all the same.
    clock.advance(HOUR)
    (answer,) = await store.replay([older], by="ada")
    assert answer.done


async def test_law_10_of_several_dead_letters_the_one_that_keeps_the_key_goes(
    store: Store, job_in: JobIn, claim_one: ClaimOne, clock: FakeClock
) -> None:
    keeper = await job_in(Status.FAILED, **KEPT)
    clock.advance(HOUR)
    newer = await job_in(Status.FAILED, idempotency_key="k")
    await store.replay([keeper], by="ada")
    held = await claim_one()
    await store.finish([dead(held.key)])

    answers = await store.replay([keeper, newer], by="ada")

    assert [answer.done for answer in answers] == [True, False]
    assert answers[1].blocked_by == keeper


@ends
async def test_a_deleted_job_keeps_no_key(
    store: Store, job_in: JobIn, status: Status
) -> None:
    first = await job_in(status, **KEPT)

    (answer,) = await store.delete([first])

    assert answer.done
    assert None not in await store.enqueue([new_job(idempotency_key="k")])


async def test_a_job_that_succeeds_keeps_all_that_it_has(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    plain = (await enqueue())[0]
    first = await claim_one()
    kept = (await enqueue(**KEPT))[0]
    second = await claim_one()
    await store.finish(
        [_outcome.succeeded(each.key, '"x"') for each in (first, second)]
    )

    def shown(job: Job) -> dict[str, object]:
        apart = {"id", "idempotency_key", "key_until"}
        names = (name for name in Job.__slots__ if name not in apart)
        return {name: getattr(job, name) for name in names}

    assert shown(await read(plain)) == shown(await read(kept))


async def test_a_late_outcome_is_refused_by_a_job_that_keeps_its_key(
    store: Store, job_in: JobIn
) -> None:
    first = await job_in(Status.SUCCEEDED, **KEPT)

    (settled,) = await store.finish([dead(ClaimKey(first, 1))])

    assert (settled.accepted, settled.status) == (False, Status.SUCCEEDED)


@ends
async def test_a_job_that_keeps_its_key_is_listed_and_counted_as_any(
    store: Store, job_in: JobIn, status: Status
) -> None:
    first = await job_in(status, **KEPT)

    listed = await store.list(Filter(status=status))
    (queue,) = (await store.stats()).queues

    assert [job.id for job in listed.jobs] == [first]
    assert queue.counts[status] == 1
