"""Idempotency keys: law 10, and what a duplicate is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._job import Status
from rowlock._store import Retention, Store
from rowlock.testing import FakeClock

from .given import (
    ClaimOne,
    ClaimSome,
    Enqueue,
    JobIn,
    OpenAnother,
    Read,
    new_job,
    retry,
)

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING])
async def test_law_10_the_key_of_an_unfinished_job_is_held(
    store: Store, job_in: JobIn, status: Status
) -> None:
    await job_in(status, idempotency_key="k")

    assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
async def test_law_10_the_key_is_free_again_when_the_job_ends(
    store: Store, job_in: JobIn, status: Status
) -> None:
    first = await job_in(status, idempotency_key="k")

    (second,) = await store.enqueue([new_job(idempotency_key="k")])

    assert second is not None
    assert second > first


async def test_law_10_the_key_of_a_pending_job_is_free_once_it_is_cancelled(
    store: Store, enqueue: Enqueue
) -> None:
    (first,) = await enqueue(idempotency_key="k")
    await store.cancel([first], by="test")

    assert None not in await store.enqueue([new_job(idempotency_key="k")])


async def test_law_10_the_key_of_an_expired_job_is_free_once_it_is_pruned(
    store: Store, enqueue: Enqueue, clock: FakeClock
) -> None:
    await enqueue(idempotency_key="k", expires_at=clock.now() + HOUR)
    clock.advance(2 * HOUR)
    await store.prune(Retention(), limit=10)

    assert None not in await store.enqueue([new_job(idempotency_key="k")])


async def test_law_10_a_retry_holds_its_key(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    await enqueue(idempotency_key="k")
    held = await claim_one()
    await store.finish([retry(held.key, delay=60)])

    assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]


async def test_law_10_who_will_never_run_holds_no_key(
    store: Store, claim: ClaimSome, clock: FakeClock, read: Read
) -> None:
    due_by = clock.now() + timedelta(seconds=10)
    job = new_job(idempotency_key="k", expires_at=due_by)
    (first,) = await store.enqueue([job])
    assert list(await store.enqueue([job])) == [None]
    clock.advance(10)

    # Nobody has pruned yet; a duplicate now would be a job that is lost.
    second, third = await store.enqueue([new_job(idempotency_key="k")] * 2)

    assert first is not None
    assert third is None
    expired = await read(first)
    assert (expired.status, expired.finished_at) == (Status.CANCELLED, clock.now())
    assert [act["event"] for act in expired.errors] == ["expired"]
    assert [held.job_id for held in (await claim()).claims] == [second]


async def test_law_10_a_job_that_was_started_in_time_keeps_its_key(
    store: Store, claim_one: ClaimOne, clock: FakeClock
) -> None:
    due_by = clock.now() + timedelta(seconds=10)
    job = new_job(idempotency_key="k", expires_at=due_by)
    await store.enqueue([job])
    held = await claim_one()
    clock.advance(11)

    assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]
    await store.finish([retry(held.key, delay=60)])
    assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]


async def test_law_10_a_key_belongs_to_its_task(store: Store) -> None:
    ids = await store.enqueue(
        [
            new_job(task="mail", idempotency_key="k"),
            new_job(task="bill", idempotency_key="k"),
            new_job(task="mail", idempotency_key="k", queue="other"),
        ]
    )

    assert [job_id is None for job_id in ids] == [False, False, True]


async def test_law_10_jobs_without_a_key_are_never_duplicates(store: Store) -> None:
    assert None not in await store.enqueue([new_job()] * 3)


async def test_b31_the_key_of_a_dead_letter_is_free(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    await enqueue(idempotency_key="k", max_attempts=1)
    held = await claim_one()
    assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]

    (settled,) = await store.finish([_outcome.lost(held)])

    assert settled.status is Status.FAILED
    assert None not in await store.enqueue([new_job(idempotency_key="k")])


async def test_law_10_two_processes_share_the_keys(
    open_another: OpenAnother, enqueue: Enqueue
) -> None:
    another = await open_another()
    await enqueue(idempotency_key="k")

    assert list(await another.enqueue([new_job(idempotency_key="k")])) == [None]


async def test_law_10_keys_are_compared_letter_by_letter(store: Store) -> None:
    # Case, spaces, accents and their two ways of writing, wildcards, the empty key.
    keys = ["k", "K", " k", "k ", "é", "e\u0301", "ß", "ss", "k%", "k_", ""]

    ids = await store.enqueue([new_job(idempotency_key=key) for key in keys])

    assert None not in ids
    again = await store.enqueue([new_job(idempotency_key=key) for key in keys])
    assert set(again) == {None}
