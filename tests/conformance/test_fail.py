"""Failing: when the next attempt is due, and what is kept of the error."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._job import Outcome, Status
from rowlock._retry import Backoff
from rowlock.testing import FakeClock

from .given import (
    ERROR,
    ClaimOne,
    ClaimSome,
    Enqueue,
    FinishOne,
    Read,
    dead,
    retry,
)

SECOND = timedelta(seconds=1)


async def test_a_failed_attempt_waits_from_the_stores_now(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    clock: FakeClock,
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    clock.advance(40)

    settled = await finish_one(retry(held.key, delay=5))

    due = clock.now() + 5 * SECOND
    assert settled.accepted
    assert (settled.status, settled.claims, settled.run_at) == (Status.PENDING, 1, due)
    job = await read(job_id)
    assert (job.status, job.run_at) == (Status.PENDING, due)
    assert (job.attempts, job.failures, job.losses) == (1, 1, 0)
    assert job.leased_until is None
    assert job.finished_at is None


async def test_law_14_retries_are_due_2_4_and_8_seconds_after_their_failures(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, clock: FakeClock
) -> None:
    backoff = Backoff.exponential(2, factor=2, jitter=0)
    await enqueue(max_attempts=4)

    waits = []
    for failures in (1, 2, 3):
        held = await claim_one()
        clock.advance(33)
        delay = backoff.delay(failures, 0.5)
        settled = await finish_one(_outcome.failed(held, ERROR, delay))
        assert settled.run_at is not None
        waits.append((settled.run_at - clock.now()).total_seconds())
        clock.advance(delay)
    held = await claim_one()

    assert waits == [2, 4, 8]
    assert _outcome.failed(held, ERROR, SECOND).status is Status.FAILED


@pytest.mark.parametrize("max_attempts", [1, 2, 3])
async def test_b19_a_job_that_always_fails_runs_max_attempts_times(
    enqueue: Enqueue,
    claim: ClaimSome,
    finish_one: FinishOne,
    read: Read,
    clock: FakeClock,
    max_attempts: int,
) -> None:
    (job_id,) = await enqueue(max_attempts=max_attempts)

    numbers = []
    while held := (await claim(1)).claims:
        numbers.append(held[0].attempts)
        await finish_one(_outcome.failed(held[0], ERROR, SECOND))
        clock.advance(1)

    assert numbers == list(range(1, max_attempts + 1))
    job = await read(job_id)
    assert (job.status, job.failures) == (Status.FAILED, max_attempts)


async def test_b21_postponing_costs_no_failure(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    clock: FakeClock,
) -> None:
    (job_id,) = await enqueue(max_attempts=2)
    for number in range(1, 31):
        held = await claim_one()
        assert held.attempts == number
        await finish_one(_outcome.snoozed(held.key, 60 * SECOND))
        clock.advance(60)

    held = await claim_one()
    assert held.failures == 0
    await finish_one(_outcome.failed(held, ERROR, SECOND))

    job = await read(job_id)
    assert (job.status, job.attempts, job.failures) == (Status.PENDING, 31, 1)
    assert job.run_at == clock.now() + SECOND


async def test_b22_a_delay_of_zero_is_due_at_once(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, clock: FakeClock
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()

    settled = await finish_one(retry(held.key, delay=0))

    assert settled.run_at == clock.now()
    assert (await claim_one()).job_id == job_id


async def test_b22_a_delay_of_a_fraction_is_kept(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, clock: FakeClock
) -> None:
    await enqueue()
    held = await claim_one()

    settled = await finish_one(retry(held.key, delay=0.2))

    assert settled.run_at == clock.now() + timedelta(milliseconds=200)


async def test_a_dead_letter_stands_with_its_error(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    clock: FakeClock,
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one(worker="w3")
    started = clock.now()
    clock.advance(2)

    settled = await finish_one(dead(held.key))

    assert (settled.accepted, settled.status) == (True, Status.FAILED)
    job = await read(job_id)
    assert job.status is Status.FAILED
    assert job.finished_at == clock.now()
    assert job.failures == 1
    assert job.last_error is not None
    assert "out of stock" in job.last_error
    (error,) = job.errors
    assert (error["type"], error["message"]) == ("ValueError", "out of stock")
    assert error["traceback"] == "line 1"
    assert (error["attempt"], error["worker"]) == (1, "w3")
    assert started.strftime("%Y-%m-%dT%H:%M:%S") in str(error["started_at"])
    assert clock.now().strftime("%Y-%m-%dT%H:%M:%S") in str(error["ended_at"])


async def test_errors_keep_the_last_ten_oldest_first(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read
) -> None:
    (job_id,) = await enqueue(max_attempts=100)
    for number in range(1, 14):
        held = await claim_one()
        error = {"type": "E", "message": f"failure {number}", "traceback": None}
        await finish_one(
            Outcome(key=held.key, status=Status.PENDING, failed=True, error=error)
        )

    job = await read(job_id)

    assert [error["message"] for error in job.errors] == [
        f"failure {number}" for number in range(4, 14)
    ]
    assert [error["attempt"] for error in job.errors] == list(range(4, 14))
    assert job.last_error is not None
    assert "failure 13" in job.last_error


async def test_a_success_adds_nothing_to_the_errors(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await finish_one(retry(held.key))
    before = await read(job_id)
    held = await claim_one()

    await finish_one(_outcome.succeeded(held.key))

    assert (await read(job_id)).errors == before.errors


async def test_an_error_in_any_script_is_kept(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read
) -> None:
    message = "żółw 🐢 'quoted' \"twice\" \\ \n line"
    (job_id,) = await enqueue()
    held = await claim_one()

    await finish_one(
        Outcome(
            key=held.key,
            status=Status.FAILED,
            failed=True,
            error={"type": "E", "message": message, "traceback": None},
        )
    )

    assert (await read(job_id)).errors[0]["message"] == message
