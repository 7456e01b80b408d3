"""Several processes on one database: from its first opening to a busy day."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable

import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import ClaimKey, Status
from rowlock._store import Retention, Store
from rowlock.stores import connect
from rowlock.testing import FakeClock

from .given import (
    LEASE,
    Enqueue,
    OpenAnother,
    demand,
    new_job,
)
from .race import race


def work_until_nothing_is_left(url: str, worker: str) -> list[ClaimKey]:
    """Claim and finish as a process of its own, giving back every third."""

    async def work() -> list[ClaimKey]:
        store = connect(url)
        await store.open()
        ended: list[ClaimKey] = []
        try:
            while True:
                claimed = await store.claim(demand(5), worker=worker, lease=LEASE)
                if not claimed.claims:
                    return ended
                outcomes = [
                    _outcome.released(held.key, unstarted=True)
                    if held.key.claim == 1 and held.job_id % 3 == 0
                    else _outcome.succeeded(held.key)
                    for held in claimed.claims
                ]
                settled = await store.finish(outcomes)
                assert all(each.accepted for each in settled)
                ended += [each.key for each in settled if each.status == "succeeded"]
        finally:
            await store.close()

    return asyncio.run(work())


@pytest.mark.usefixtures("processes")
async def test_law_5_claims_of_real_processes_add_up(
    store: Store, enqueue: Enqueue, database: str, scale: int
) -> None:
    ids = await enqueue(300 * scale)
    workers = [(database, f"w{n}") for n in range(3)]

    with multiprocessing.get_context("spawn").Pool(3) as pool:
        each = await asyncio.to_thread(
            pool.starmap, work_until_nothing_is_left, workers
        )

    ended = sorted(key for keys in each for key in keys)
    assert ended == [(job_id, 2 if job_id % 3 == 0 else 1) for job_id in ids]
    jobs = (await store.list(Filter(), limit=9999 * scale)).jobs
    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert {job.attempts for job in jobs} == {1}


@pytest.mark.usefixtures("processes")
async def test_many_who_migrate_at_once_apply_each_step_once(
    unmigrated: str, clock: FakeClock
) -> None:
    stores = [connect(unmigrated, clock=clock) for _ in range(6)]
    pending = await stores[0].migrate(dry_run=True)

    ((*applied,),) = await race(
        1, *(lambda _, each=each: each.migrate() for each in stores)
    )

    assert [step for steps in applied for step in steps] == list(pending)
    await asyncio.gather(*(each.open() for each in stores))
    for each in stores:
        assert None not in await each.enqueue([new_job()])
        await each.close()


@pytest.mark.usefixtures("processes", "migrates_itself")
async def test_many_who_open_a_new_database_at_once_all_find_it_ready(
    new_database: Callable[[], str], clock: FakeClock, scale: int
) -> None:
    async def open_and_use(store: Store) -> int | None:
        await store.open()
        (job_id,) = await store.enqueue([new_job()])
        return job_id

    for _ in range(5 * scale):
        fresh = new_database()
        stores = [connect(fresh, clock=clock) for _ in range(4)]

        ((*ids,),) = await race(
            1, *(lambda _, each=each: open_and_use(each) for each in stores)
        )

        assert sorted(ids) == [1, 2, 3, 4]
        for each in stores:
            await each.close()


async def test_b143_many_processes_doing_everything_meet_no_lock(
    store: Store, open_another: OpenAnother, scale: int
) -> None:
    stores = [store, *[await open_another() for _ in range(3)]]

    async def everything(each: Store, worker: str) -> int:
        done = 0
        for _ in range(25 * scale):
            await each.enqueue([new_job() for _ in range(3)])
            claimed = await each.claim(demand(2), worker=worker, lease=LEASE)
            keys = [held.key for held in claimed.claims]
            await each.renew(keys, worker=worker, lease=LEASE)
            await each.stats()
            settled = await each.finish([_outcome.succeeded(key) for key in keys])
            done += sum(one.accepted for one in settled)
            await each.prune(Retention(), limit=10)
            await each.list(Filter(), limit=10)
        return done

    ((*done,),) = await race(
        1,
        *(
            lambda _, n=n, each=each: everything(each, f"w{n}")
            for n, each in enumerate(stores)
        ),
    )

    assert done == [50 * scale] * 4
