"""Claim: laws 3, 5, 11, 13, 14, 15 and 16, and what a claim carries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import ClaimKey, Status
from rowlock._store import Demand, Pause, Store
from rowlock.testing import FakeClock

from .given import (
    LEASE,
    ClaimOne,
    ClaimSome,
    Enqueue,
    OpenAnother,
    Read,
    demand,
    new_job,
    retry,
)

SECOND = timedelta(seconds=1)


async def test_law_3_a_job_is_claimed_once(enqueue: Enqueue, claim: ClaimSome) -> None:
    ids = await enqueue(5)

    first = (await claim(3, worker="w1")).claims
    second = (await claim(3, worker="w2")).claims
    third = (await claim(3, worker="w1")).claims

    assert [held.job_id for held in (*first, *second)] == ids
    assert third == ()


async def test_law_3_a_job_held_elsewhere_is_not_claimed(
    enqueue: Enqueue, claim: ClaimSome, open_another: OpenAnother
) -> None:
    another = await open_another()
    await enqueue(3)

    first = (await claim(2)).claims
    second = (await another.claim(demand(5), worker="w2", lease=LEASE)).claims

    assert len(first) == 2
    assert len(second) == 1
    assert {held.job_id for held in first}.isdisjoint(held.job_id for held in second)


async def test_law_3_a_lease_that_ran_out_lets_nobody_claim(
    enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    await enqueue()
    await claim()
    clock.advance(10 * LEASE)

    # Only a finish gives it back: `lost` reads it, and the caller decides.
    assert (await claim()).claims == ()


async def test_law_5_each_claim_raises_claims_by_one_and_nothing_lowers_it(
    enqueue: Enqueue, claim_one: ClaimOne, store: Store, read: Read
) -> None:
    (job_id,) = await enqueue(max_attempts=100)
    ends: list[Any] = [
        lambda key: _outcome.released(key, unstarted=True),
        lambda key: _outcome.released(key, unstarted=False),
        lambda key: _outcome.snoozed(key, timedelta(0)),
        retry,
        _outcome.cancelled,
        _outcome.succeeded,
    ]

    for number, end in enumerate(ends, start=1):
        held = await claim_one()
        assert held.key == ClaimKey(job_id, number)
        await store.finish([end(held.key)])
        assert (await read(job_id)).claims == number
        await store.replay([job_id], by="test")
        assert (await read(job_id)).claims == number


async def test_a_start_is_counted_with_the_claim_and_taken_back_unstarted(
    enqueue: Enqueue, claim_one: ClaimOne, store: Store, read: Read
) -> None:
    (job_id,) = await enqueue()

    for _ in range(3):
        held = await claim_one()
        assert held.attempts == 1
        await store.finish([_outcome.released(held.key, unstarted=True)])
        assert (await read(job_id)).attempts == 0
    for number in (1, 2, 3):
        held = await claim_one()
        assert held.attempts == number
        await store.finish([_outcome.released(held.key, unstarted=False)])
        assert (await read(job_id)).attempts == number


async def test_law_11_a_paused_queue_yields_no_claims(
    store: Store, claim: ClaimSome
) -> None:
    await store.enqueue([new_job(queue="a"), new_job(queue="b"), new_job(queue="a")])
    await store.pause(Pause(queue="a"))

    (held,) = (await claim()).claims

    assert held.queue == "b"
    assert (await claim(queues={"a": 5, "b": 5})).claims == ()


@pytest.mark.parametrize("total", [0, 1, 2, 5, 7])
async def test_law_13_a_claim_takes_at_most_what_is_demanded(
    enqueue: Enqueue, claim: ClaimSome, total: int
) -> None:
    await enqueue(5)

    assert len((await claim(total)).claims) == min(total, 5)


async def test_law_13_a_claim_is_repeated_until_nothing_is_left(
    enqueue: Enqueue, claim: ClaimSome
) -> None:
    ids = await enqueue(10)

    taken: list[int] = []
    while batch := (await claim(3)).claims:
        assert len(batch) <= 3
        taken += [held.job_id for held in batch]

    assert taken == ids


async def test_law_13_each_queue_yields_at_most_its_share(
    store: Store, claim: ClaimSome
) -> None:
    await store.enqueue([new_job(queue=queue) for queue in "abcd" for _ in range(4)])

    held = (await claim(10, queues={"a": 3, "b": 1, "c": 0})).claims

    queues = [each.queue for each in held]
    assert {queue: queues.count(queue) for queue in set(queues)} == {"a": 3, "b": 1}


async def test_law_13_the_total_bounds_all_queues_together(
    store: Store, claim: ClaimSome
) -> None:
    await store.enqueue([new_job(queue=queue) for queue in "ab" for _ in range(4)])

    assert len((await claim(5, queues={"a": 4, "b": 4})).claims) == 5
    assert len((await claim(5, queues={"a": 4, "b": 4})).claims) == 3


async def test_a_crowded_queue_does_not_hide_another(
    store: Store, claim: ClaimSome
) -> None:
    await store.enqueue([new_job(queue="crowded", priority=100)] * 300)
    await store.enqueue([new_job(queue="small", priority=-100)])

    held = (await claim(10, queues={"crowded": 2, "small": 2})).claims

    assert sorted(each.queue for each in held) == ["crowded", "crowded", "small"]


async def test_queues_take_turns_however_many_jobs_a_claim_takes(
    store: Store, claim: ClaimSome
) -> None:
    queues = [f"q{n}" for n in range(12)]
    await store.enqueue([new_job(queue=queue) for queue in queues for _ in range(9)])

    served = [[held.queue for held in (await claim(4)).claims] for _ in range(3)]

    assert sorted(queue for each in served for queue in each) == sorted(queues)


async def test_law_16_only_tasks_with_a_handler_are_claimed(
    store: Store, claim: ClaimSome, read: Read
) -> None:
    ids = await store.enqueue(
        [new_job(task="unknown", priority=100), new_job(), new_job(task="also unknown")]
    )

    held = (await claim()).claims

    assert [each.job_id for each in held] == [ids[1]]
    assert ids[0] is not None
    unknown = await read(ids[0])
    assert unknown.status is Status.PENDING
    assert (unknown.claims, unknown.attempts, unknown.losses) == (0, 0, 0)


async def test_law_16_hundreds_of_unknown_tasks_at_the_head_block_nothing(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    await enqueue(400, task="unknown", priority=100)
    ids = await enqueue(3)

    assert [held.job_id for held in (await claim(3)).claims] == ids
    assert len((await store.list(Filter(task="unknown"), limit=1000)).jobs) == 400


async def test_law_16_a_worker_without_handlers_claims_nothing(
    store: Store, enqueue: Enqueue
) -> None:
    await enqueue()

    claimed = await store.claim(
        Demand(total=5, tasks=frozenset()), worker="w1", lease=LEASE
    )

    assert claimed.claims == ()
    assert claimed.next_due is None


async def test_law_14_a_claim_starts_at_the_stores_now(
    enqueue: Enqueue, claim: ClaimSome, clock: FakeClock, read: Read
) -> None:
    (job_id,) = await enqueue()
    clock.advance(12.25)

    claimed = await claim(lease=90 * SECOND, worker="w7")

    (held,) = claimed.claims
    assert claimed.now == clock.now()
    assert held.started_at == clock.now()
    assert held.leased_until == clock.now() + 90 * SECOND
    job = await read(job_id)
    assert job.status is Status.RUNNING
    assert job.started_at == held.started_at
    assert job.leased_until == held.leased_until
    assert job.updated_at == clock.now()
    assert job.worker == "w7"
    for instant in (held.started_at, held.leased_until, held.run_at, held.created_at):
        assert instant.utcoffset() == timedelta(0)


async def test_a_claim_carries_the_job(
    enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock
) -> None:
    created = clock.now()
    payload = '{"to": "żółw", "n": 1}'
    backoff = {"kind": "fixed", "values": [5.0], "cap": None, "jitter": 0.0}
    (job_id,) = await enqueue(
        task="mail",
        queue="slow",
        payload=payload,
        priority=4,
        delay=SECOND,
        max_attempts=7,
        timeout=1.5,
        backoff=backoff,
        idempotency_key="k",
    )
    clock.advance(2)

    held = await claim_one(tasks=["mail"], worker="w9")

    assert held.key == ClaimKey(job_id, 1)
    assert (held.task, held.queue, held.worker) == ("mail", "slow", "w9")
    assert held.payload == payload
    assert (held.priority, held.max_attempts, held.timeout) == (4, 7, 1.5)
    assert held.backoff == backoff
    assert held.idempotency_key == "k"
    assert (held.attempts, held.failures, held.losses) == (1, 0, 0)
    assert (held.alone, held.abandoned) == (False, False)
    assert held.state is None
    assert held.run_at == created + SECOND
    assert held.created_at == created
    assert held.cancel_requested_at is None


async def test_a_claim_tells_of_the_failures_and_losses_before_it(
    enqueue: Enqueue, claim_one: ClaimOne, store: Store
) -> None:
    await enqueue(max_attempts=9)
    held = await claim_one()
    await store.finish([retry(held.key)])
    held = await claim_one()
    assert (held.attempts, held.failures, held.losses) == (2, 1, 0)
    await store.finish([_outcome.lost(held)])

    # One loss: the worker that claims it now can see that it is a suspect.
    held = await claim_one(suspects=True)

    assert (held.attempts, held.failures, held.losses) == (3, 1, 1)


@pytest.mark.parametrize("alone", [True, False])
async def test_a_claim_says_whether_it_is_alone(
    enqueue: Enqueue, claim_one: ClaimOne, store: Store, *, alone: bool
) -> None:
    await enqueue()

    held = await claim_one(alone=alone)

    assert held.alone is alone
    (seen,) = await store.lost(10, worker="w1")
    assert seen.alone is alone


async def test_alone_is_of_one_claim_and_not_of_the_job(
    enqueue: Enqueue, claim_one: ClaimOne, store: Store
) -> None:
    await enqueue()
    held = await claim_one(alone=True)
    await store.finish([_outcome.snoozed(held.key, timedelta(0))])

    assert not (await claim_one(alone=False)).alone


async def test_law_15_a_claim_whose_answer_was_lost_is_found_by_its_worker(
    enqueue: Enqueue, claim: ClaimSome, store: Store
) -> None:
    await enqueue(5)
    thrown_away = (await claim(3)).claims

    again = (await claim(5)).claims

    assert len(again) == 2
    found = await store.lost(10, worker="w1")
    assert {held.key for held in found} == {held.key for held in (*thrown_away, *again)}


async def test_after_a_loss_the_job_does_not_keep_the_old_run_at(
    enqueue: Enqueue, claim_one: ClaimOne, store: Store, clock: FakeClock, read: Read
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    clock.advance(100)
    await store.finish([_outcome.lost(held)])

    assert (await read(job_id)).run_at == clock.now()
