"""Spawn: law 7, an outcome and the jobs that it brings are one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._errors import StoreError
from rowlock._filter import Filter
from rowlock._job import Outcome, Status
from rowlock._store import Store
from rowlock.testing import FakeClock

from .given import (
    ClaimOne,
    ClaimSome,
    Enqueue,
    FinishOne,
    JobIn,
    Read,
    dead,
    key_of,
    new_job,
)

SECOND = timedelta(seconds=1)


async def test_law_7_an_outcome_inserts_the_jobs_it_spawns(
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
    clock: FakeClock,
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
            _outcome.succeeded(
                key, spawned=(new_job(payload=f'{{"from": {key.job_id}}}'),)
            )
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
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    finish_one: FinishOne,
    read: Read,
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
