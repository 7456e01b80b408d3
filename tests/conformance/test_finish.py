"""Finish: laws 5, 6, 7, 14, 15 and 21, and what each outcome leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest

from rowlock import _outcome
from rowlock._errors import StoreError
from rowlock._job import ClaimKey, Outcome, Status
from rowlock._retry import Backoff
from rowlock._store import Filter, Settled, Store
from rowlock.testing import FakeClock

from .given import (
    ERROR,
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
    new_job,
    retry,
)

SECOND = timedelta(seconds=1)

ENDS: dict[str, Callable[[ClaimKey], Outcome]] = {
    "succeeded": lambda key: _outcome.succeeded(key, "1"),
    "retried": lambda key: retry(key, delay=7),
    "dead": dead,
    "snoozed": lambda key: _outcome.snoozed(key, 7 * SECOND),
    "released": lambda key: _outcome.released(key, unstarted=False),
    "unstarted": lambda key: _outcome.released(key, unstarted=True),
    "cancelled": _outcome.cancelled,
    "lost": lambda key: Outcome(
        key=key, status=Status.PENDING, lost=True, failed=True, error=ERROR
    ),
}


async def test_a_success_stands_with_its_result(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read, clock: FakeClock
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


@pytest.mark.parametrize("result", [None, "null", "0", "[]", '""', "false"])
async def test_a_result_may_be_any_json(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    result: str | None,
) -> None:
    wanted = {None: None, "null": None, "0": 0, "[]": [], '""': "", "false": False}
    (job_id,) = await enqueue()
    held = await claim_one()

    await finish_one(_outcome.succeeded(held.key, result))

    assert (await read(job_id)).result == wanted[result]


async def test_an_outcome_adds_to_the_jobs_meta(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read
) -> None:
    (job_id,) = await enqueue(meta={"trace": "t1", "result_error": "old"})
    held = await claim_one()

    await finish_one(_outcome.succeeded(held.key, meta={"result_error": "not JSON"}))

    assert (await read(job_id)).meta == {"trace": "t1", "result_error": "not JSON"}


async def test_a_failed_attempt_waits_from_the_stores_now(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read, clock: FakeClock
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
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read, clock: FakeClock
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
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read, clock: FakeClock
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
    assert started.strftime("%Y-%m-%dT%H:%M:%S") in str(error["started"])
    assert clock.now().strftime("%Y-%m-%dT%H:%M:%S") in str(error["ended"])


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
    new = await claim_one(worker="w2")
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
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, open_another: OpenAnother
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


async def test_thousands_of_outcomes_are_written_in_one_call(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    await enqueue(2500)
    held = (await claim(2500)).claims

    settled = await store.finish([_outcome.succeeded(each.key) for each in held])

    assert all(each.accepted for each in settled)
    assert [each.key for each in settled] == [each.key for each in held]


async def test_law_7_an_outcome_inserts_the_jobs_it_spawns(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read, clock: FakeClock
) -> None:
    await enqueue()
    held = await claim_one()
    spawned = (
        new_job(queue="next", payload='{"n": 1}'),
        new_job(queue="next", delay=5 * SECOND),
    )

    settled = await finish_one(_outcome.succeeded(held.key, spawned=spawned))

    assert settled.accepted
    first, second = settled.spawned
    assert first is not None
    assert second is not None
    assert (await read(first)).payload == {"n": 1}
    assert (await read(first)).queue == "next"
    assert (await read(second)).run_at == clock.now() + 5 * SECOND


async def test_law_7_a_refused_outcome_spawns_nothing(
    store: Store, job_in: JobIn, finish_one: FinishOne, read: Read
) -> None:
    job = await read(await job_in(Status.SUCCEEDED))

    settled = await finish_one(
        _outcome.succeeded(key_of(job), spawned=(new_job(idempotency_key="k"),))
    )

    assert not settled.accepted
    assert settled.spawned == ()
    assert [each.id for each in (await store.list(Filter())).jobs] == [job.id]
    assert None not in await store.enqueue([new_job(idempotency_key="k")])


async def test_law_7_of_a_batch_each_outcome_spawns_its_own(
    store: Store, enqueue: Enqueue, claim: ClaimSome, read: Read
) -> None:
    await enqueue(3)
    a, b, c = (held.key for held in (await claim(3)).claims)
    await store.finish([dead(b)])

    settled = await store.finish(
        [
            _outcome.succeeded(key, spawned=(new_job(payload=f'{{"from": {key.job_id}}}'),))
            for key in (a, b, c)
        ]
    )

    assert [len(each.spawned) for each in settled] == [1, 0, 1]
    for each in (settled[0], settled[2]):
        (spawned,) = each.spawned
        assert spawned is not None
        assert (await read(spawned)).payload == {"from": each.key.job_id}


async def test_law_7_a_duplicate_among_the_spawned_is_none(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne
) -> None:
    await enqueue()
    held = await claim_one()
    await enqueue(idempotency_key="taken")

    settled = await finish_one(
        _outcome.succeeded(
            held.key,
            spawned=(
                new_job(idempotency_key="taken"),
                new_job(idempotency_key="new"),
                new_job(idempotency_key="new"),
            ),
        )
    )

    assert settled.accepted
    assert [job_id is None for job_id in settled.spawned] == [True, False, True]


async def test_law_7_a_job_may_spawn_its_successor_under_its_own_key(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne, read: Read
) -> None:
    (first,) = await enqueue(idempotency_key="daily")
    held = await claim_one()

    settled = await finish_one(
        _outcome.succeeded(held.key, spawned=(new_job(idempotency_key="daily"),))
    )

    (second,) = settled.spawned
    assert second is not None
    assert second > first
    assert (await read(first)).status is Status.SUCCEEDED
    assert (await read(second)).status is Status.PENDING
    assert list(await store.enqueue([new_job(idempotency_key="daily")])) == [None]


async def test_law_7_a_job_that_goes_on_keeps_its_key_from_what_it_spawns(
    enqueue: Enqueue, claim_one: ClaimOne, finish_one: FinishOne
) -> None:
    await enqueue(idempotency_key="daily")
    held = await claim_one()

    settled = await finish_one(
        Outcome(
            key=held.key,
            status=Status.PENDING,
            spawned=(new_job(idempotency_key="daily"),),
        )
    )

    assert settled.accepted
    assert settled.spawned == (None,)


async def test_law_7_where_a_spawned_job_is_refused_the_outcome_is_not_written(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    poison: Callable[[], AbstractContextManager[None]],
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    before = await read(job_id)
    outcome = _outcome.succeeded(
        held.key, spawned=(new_job(), new_job(task="poison"), new_job())
    )

    with poison(), pytest.raises(StoreError):
        await finish_one(outcome)

    assert await read(job_id) == before
    assert len((await store.list(Filter())).jobs) == 1
    assert (await finish_one(outcome)).accepted
    assert len((await store.list(Filter())).jobs) == 4


@pytest.mark.parametrize("end", ["retried", "dead", "snoozed", "released", "unstarted", "lost"])
async def test_law_21_after_a_cancel_was_asked_nothing_but_cancelled_or_succeeded_follows(
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
