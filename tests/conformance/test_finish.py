"""Finish: laws 14 and 21, and what each outcome leaves behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowlock import _outcome
from rowlock._job import Status
from rowlock._store import Settled, Store
from rowlock.testing import FakeClock

from .given import (
    ENDS,
    ClaimOne,
    ClaimSome,
    Enqueue,
    FinishOne,
    Read,
    retry,
)

SECOND = timedelta(seconds=1)


async def test_a_success_stands_with_its_result(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    clock: FakeClock,
) -> None:
    (job_id,) = await enqueue(meta={"trace": "t1"})
    held = await claim_one()
    clock.advance(3)

    settled = await finish_one(_outcome.succeeded(held.key, '{"sum": [1, 2.5, "é"]}'))

    assert settled == Settled(
        key=held.key, accepted=True, status=Status.SUCCEEDED, claims=1
    )
    job = await read(job_id)
    assert job.status is Status.SUCCEEDED
    assert job.result == {"sum": [1, 2.5, "é"]}
    assert job.finished_at == clock.now()
    assert job.started_at == clock.now() - 3 * SECOND
    assert job.updated_at == clock.now()
    assert job.leased_until is None
    assert (job.claims, job.attempts, job.failures, job.losses) == (1, 1, 0, 0)
    assert (job.errors, job.last_error) == ((), None)
    assert job.meta == {"trace": "t1"}


@pytest.mark.parametrize(
    ("result", "decoded"),
    [(None, None), ("null", None), ("0", 0), ("[]", []), ('""', ""), ("false", False)],
)
async def test_a_result_may_be_any_json(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    result: str | None,
    decoded: object,
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()

    await finish_one(_outcome.succeeded(held.key, result))

    found = (await read(job_id)).result
    assert (found, type(found)) == (decoded, type(decoded))


async def test_an_outcome_adds_to_the_jobs_meta(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read
) -> None:
    (job_id,) = await enqueue(meta={"trace": "t1", "result_error": "old"})
    held = await claim_one()

    await finish_one(_outcome.succeeded(held.key, meta={"result_error": "not JSON"}))

    assert (await read(job_id)).meta == {"trace": "t1", "result_error": "not JSON"}


@pytest.mark.parametrize("end", ["retried", "snoozed", "released", "unstarted", "lost"])
async def test_a_return_to_pending_never_keeps_the_old_run_at(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    clock: FakeClock,
    end: str,
) -> None:
    (job_id,) = await enqueue()
    enqueued_at = clock.now()
    clock.advance(50)
    held = await claim_one()
    clock.advance(50)

    outcome = ENDS[end](held.key)
    settled = await finish_one(outcome)

    assert settled.run_at == enqueued_at + 100 * SECOND + outcome.delay
    assert (await read(job_id)).run_at == settled.run_at


@pytest.mark.parametrize(
    ("end", "charged"),
    [
        ("succeeded", (1, 0, 0)),
        ("retried", (1, 1, 0)),
        ("dead", (1, 1, 0)),
        ("snoozed", (1, 0, 0)),
        ("released", (1, 0, 0)),
        ("unstarted", (0, 0, 0)),
        ("cancelled", (1, 0, 0)),
        ("lost", (1, 1, 1)),
    ],
)
async def test_an_outcome_charges_what_it_says(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    end: str,
    charged: tuple[int, int, int],
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()

    await finish_one(ENDS[end](held.key))

    job = await read(job_id)
    assert (job.attempts, job.failures, job.losses) == charged
    assert job.claims == 1


async def test_thousands_of_outcomes_are_written_in_one_call(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    await enqueue(2500)
    held = (await claim(2500)).claims

    settled = await store.finish([_outcome.succeeded(each.key) for each in held])

    assert all(each.accepted for each in settled)
    assert [each.key for each in settled] == [each.key for each in held]


@pytest.mark.parametrize(
    "end", ["retried", "dead", "snoozed", "released", "unstarted", "lost"]
)
async def test_law_21_after_a_cancel_was_asked_a_failure_or_a_return_is_a_cancel(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    clock: FakeClock,
    end: str,
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.cancel([job_id], by="test")
    clock.advance(1)

    settled = await finish_one(ENDS[end](held.key))

    assert settled.accepted
    assert settled.status is Status.CANCELLED
    assert settled.run_at is None
    job = await read(job_id)
    assert job.status is Status.CANCELLED
    assert job.finished_at == clock.now()
    assert job.leased_until is None


@pytest.mark.parametrize("end", ["succeeded", "cancelled"])
async def test_law_21_succeeded_and_cancelled_stand_after_a_cancel_was_asked(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    end: str,
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.cancel([job_id], by="test")

    settled = await finish_one(ENDS[end](held.key))

    assert settled.accepted
    assert settled.status == end
    assert (await read(job_id)).status == end


@pytest.mark.parametrize("end", ENDS)
async def test_finished_at_is_never_before_started_at(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    clock: FakeClock,
    end: str,
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    clock.jump(-3600)

    settled = await finish_one(ENDS[end](held.key))

    job = await read(job_id)
    assert settled.accepted
    if job.status.is_final:
        assert job.finished_at is not None
        assert job.started_at is not None
        assert job.finished_at >= job.started_at
    else:
        assert job.finished_at is None
        assert job.run_at == clock.now() + ENDS[end](held.key).delay


async def test_law_14_outcomes_carry_the_stores_instants_in_utc(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()

    settled = await finish_one(retry(held.key, delay=5))

    assert settled.run_at is not None
    instants: list[Any] = [settled.run_at]
    job = await read(job_id)
    instants += [job.run_at, job.started_at, job.updated_at, job.created_at]
    assert {instant.utcoffset() for instant in instants if instant} == {timedelta(0)}
