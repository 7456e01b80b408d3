"""Law 18, nobody waits for a user; law 15, what raised has changed nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._errors import OutcomeUnknown, StoreError, StoreUnavailable
from rowlock._filter import Filter
from rowlock._job import ClaimKey, Status
from rowlock._store import Pause, Retention, Store
from rowlock.testing import FakeClock

from .given import LEASE, Enqueue, JobIn, demand, new_job, retry

Act = Callable[[Store, dict[str, int]], Awaitable[object]]

# Every verb that writes, on the jobs `ids`, which are named by their status.
ACTS: dict[str, Act] = {
    "enqueue": lambda store, _ids: store.enqueue([new_job(), new_job(task="poison")]),
    "claim": lambda store, _ids: store.claim(
        demand(9, "task", "poison"), worker="w1", lease=LEASE
    ),
    "renew": lambda store, ids: store.renew(
        [ClaimKey(ids["running"], 1)], worker="w1", lease=9 * LEASE
    ),
    "finish": lambda store, ids: store.finish([retry(ClaimKey(ids["running"], 1))]),
    "save": lambda store, ids: store.save(ClaimKey(ids["running"], 1), state="1"),
    "prune": lambda store, _ids: store.prune(Retention(), limit=10),
    "cancel": lambda store, ids: store.cancel(
        [ids["pending"], ids["running"]], by="test"
    ),
    "replay": lambda store, ids: store.replay(
        [ids["cancelled"], ids["failed"]], by="test"
    ),
    "move": lambda store, ids: store.move([ids["pending"]], by="test", priority=5),
    "delete": lambda store, ids: store.delete([ids["cancelled"], ids["failed"]]),
}


async def some_of_each(job_in: JobIn, task: str) -> dict[str, int]:
    return {str(status): await job_in(status, task=task) for status in Status}


@pytest.mark.parametrize("verb", ACTS)
async def test_law_15_an_operation_that_raised_has_changed_nothing(
    store: Store,
    job_in: JobIn,
    clock: FakeClock,
    poison: Callable[[], AbstractContextManager[None]],
    verb: str,
) -> None:
    await some_of_each(job_in, "task")
    ids = await some_of_each(job_in, "poison")
    clock.advance(timedelta(days=400))
    before = (await store.list(Filter())).jobs

    with poison(), pytest.raises(StoreError) as error:
        await ACTS[verb](store, ids)

    assert not isinstance(error.value, OutcomeUnknown)
    assert (await store.list(Filter())).jobs == before
    # What failed once can be done as soon as its cause is gone.
    await ACTS[verb](store, ids)
    assert (await store.list(Filter())).jobs != before


async def test_law_15_a_claim_that_rolls_back_leaves_its_jobs_to_the_next(
    store: Store,
    enqueue: Enqueue,
    poison: Callable[[], AbstractContextManager[None]],
) -> None:
    ids = [*await enqueue(2), *await enqueue(task="poison"), *await enqueue(2)]
    both = demand(9, "task", "poison")

    with poison(), pytest.raises(StoreError):
        await store.claim(both, worker="w1", lease=LEASE)

    assert list(await store.lost(10, worker="w1")) == []
    held = (await store.claim(both, worker="w2", lease=LEASE)).claims
    assert [each.key for each in held] == [ClaimKey(job_id, 1) for job_id in ids]


async def test_law_18_nothing_waits_longer_than_a_second_for_a_users_transaction(
    store: Store,
    job_in: JobIn,
    hold_writes: Callable[[], AbstractContextManager[None]],
) -> None:
    ids = await some_of_each(job_in, "task")
    before = (await store.list(Filter())).jobs
    took: dict[str, float] = {}

    async def timed(verb: str) -> None:
        start = time.monotonic()
        try:
            await ACTS[verb](store, ids)
        except StoreUnavailable:
            took[verb] = time.monotonic() - start

    with hold_writes():
        await asyncio.gather(*(timed(verb) for verb in ACTS))

    # A verb that isn't in the way of such a transaction is answered; those that
    # gave up did so in time, and wrote nothing.
    assert took
    assert all(seconds < 2 for seconds in took.values()), took
    if len(took) == len(ACTS):
        assert (await store.list(Filter())).jobs == before
    for verb in took:
        await ACTS[verb](store, ids)
    assert (await store.list(Filter())).jobs != before


async def test_law_18_those_who_wait_together_do_not_wait_in_turn(
    store: Store, hold_writes: Callable[[], AbstractContextManager[None]]
) -> None:
    start = time.monotonic()

    with hold_writes():
        answers = await asyncio.gather(
            *(store.enqueue([new_job()]) for _ in range(20)), return_exceptions=True
        )

    assert time.monotonic() - start < 3
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert (await store.list(Filter())).jobs == ()


async def test_law_18_readers_are_not_in_the_way_of_a_users_transaction(
    store: Store,
    job_in: JobIn,
    hold_writes: Callable[[], AbstractContextManager[None]],
) -> None:
    job_id = await job_in(Status.RUNNING)

    start = time.monotonic()
    with hold_writes():
        assert len(await store.get([job_id])) == 1
        assert len((await store.list(Filter())).jobs) == 1
        assert len((await store.stats()).queues) == 1
        assert len(await store.lost(10, worker="w1")) == 1

    assert time.monotonic() - start < 1


async def test_law_18_a_lock_that_ends_in_time_is_waited_for(
    store: Store, hold_writes: Callable[[], AbstractContextManager[None]]
) -> None:
    with hold_writes():
        waiting = asyncio.create_task(store.enqueue([new_job()]))
        # Real: the enqueue has to have met the lock.
        await asyncio.sleep(0.2)

    assert None not in await waiting


async def test_a_caller_that_gives_up_leaves_the_store_to_the_others(
    store: Store, hold_writes: Callable[[], AbstractContextManager[None]]
) -> None:
    with hold_writes():
        leaving = asyncio.create_task(store.enqueue([new_job(queue="left")]))
        staying = asyncio.create_task(store.enqueue([new_job(queue="stayed")]))
        # Real: both have to have been handed over.
        await asyncio.sleep(0.1)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving

    (job_id,) = await staying
    jobs = (await store.list(Filter(queue="stayed"))).jobs
    assert [job.id for job in jobs] == [job_id]
    # Whether the other was written nobody can say; it is not half there.
    assert len((await store.list(Filter(queue="left"))).jobs) <= 1


async def test_law_8_a_row_held_by_a_users_transaction_is_not_lost(
    store: Store,
    job_in: JobIn,
    hold_writes: Callable[[], AbstractContextManager[None]],
) -> None:
    key = ClaimKey(await job_in(Status.RUNNING), 1)

    with hold_writes():
        try:
            renewal = await store.renew([key], worker="w1", lease=LEASE)
        except StoreUnavailable:
            pass
        else:
            assert renewal.lost == frozenset()

    assert (await store.renew([key], worker="w1", lease=LEASE)).lost == frozenset()
    (settled,) = await store.finish([_outcome.succeeded(key)])
    assert settled.accepted


async def test_law_11_a_pause_that_raised_pauses_nothing(
    store: Store, hold_writes: Callable[[], AbstractContextManager[None]]
) -> None:
    with hold_writes():
        try:
            await store.pause(Pause(queue="default"))
        except StoreUnavailable:
            assert (await store.stats()).pauses == ()
        else:
            assert len((await store.stats()).pauses) == 1
