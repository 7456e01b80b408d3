"""
Real concurrency: threads with loops of their own, stores of their own, processes.

Each race is run many times over. What is asked is never who wins, but that somebody
does, and that all are told the same story.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from rowlock import _outcome
from rowlock._job import ClaimKey, Status
from rowlock._store import Filter, Pause, Pruned, Retention, Store
from rowlock.stores import connect
from rowlock.testing import FakeClock

from .given import (
    LEASE,
    ClaimSome,
    Enqueue,
    JobIn,
    OpenAnother,
    dead,
    demand,
    new_job,
    retry,
)

T = TypeVar("T")
Act = Callable[[int], Coroutine[Any, Any, T]]

NOTHING = Pruned(expired=0, deleted=0)


async def race(rounds: int, *acts: Act[Any]) -> list[tuple[Any, ...]]:
    """Let each act run at the same moment as the others, round after round."""
    gate = threading.Barrier(len(acts))

    async def run(act: Act[Any]) -> list[Any]:
        answers = []
        for number in range(rounds):
            gate.wait(timeout=60)
            answers.append(await act(number))
        return answers

    def thread(act: Act[Any]) -> list[Any]:
        try:
            return asyncio.run(run(act))
        except BaseException:
            gate.abort()
            raise

    with ThreadPoolExecutor(len(acts)) as pool:
        loop = asyncio.get_running_loop()
        each = await asyncio.gather(
            *(loop.run_in_executor(pool, thread, act) for act in acts)
        )
    return list(zip(*each, strict=True))


async def claim_all(store: Store, worker: str, size: int) -> list[ClaimKey]:
    taken: list[ClaimKey] = []
    while True:
        claimed = await store.claim(demand(size), worker=worker, lease=LEASE)
        if not claimed.claims:
            return taken
        taken += [held.key for held in claimed.claims]


async def test_law_3_many_claimers_of_one_process_get_each_job_once(
    store: Store, enqueue: Enqueue, scale: int
) -> None:
    ids = await enqueue(500 * scale)

    ((*taken,),) = await race(
        1, *(lambda _, n=n: claim_all(store, f"w{n}", n + 1) for n in range(8))
    )

    keys = [key for keys in taken for key in keys]
    assert sorted(keys) == [ClaimKey(job_id, 1) for job_id in ids]


async def test_law_3_many_claimers_of_many_processes_get_each_job_once(
    store: Store, enqueue: Enqueue, open_another: OpenAnother, scale: int
) -> None:
    ids = await enqueue(500 * scale)
    stores = [store, *[await open_another() for _ in range(3)]]

    ((*taken,),) = await race(
        1,
        *(
            lambda _, n=n, each=each: claim_all(each, f"w{n}", n + 1)
            for n, each in enumerate(stores)
        ),
    )

    keys = [key for keys in taken for key in keys]
    assert sorted(keys) == [ClaimKey(job_id, 1) for job_id in ids]
    held = Counter(job.worker for job in (await store.list(Filter(), limit=9999)).jobs)
    assert held == {f"w{n}": len(each) for n, each in enumerate(taken) if each}


def work_until_nothing_is_left(url: str, worker: str) -> list[tuple[int, int]]:
    """Claim and finish as a process of its own, giving back every third."""

    async def work() -> list[tuple[int, int]]:
        store = connect(url)
        await store.open()
        ended: list[tuple[int, int]] = []
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
                ended += [
                    tuple(each.key) for each in settled if each.status == "succeeded"
                ]
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


async def test_b15_finish_against_recover_one_of_them_is_refused(
    store: Store,
    enqueue: Enqueue,
    claim: ClaimSome,
    open_another: OpenAnother,
    scale: int,
) -> None:
    rounds = 200 * scale
    await enqueue(rounds, max_attempts=9)
    held = (await claim(rounds, worker="stalled")).claims
    another = await open_another()
    read = {each.key: each for each in await another.lost(rounds, worker="stalled")}
    assert len(read) == rounds

    answers = await race(
        rounds,
        lambda n: store.finish([_outcome.succeeded(held[n].key, '"mine"')]),
        lambda n: another.finish([_outcome.lost(read[held[n].key])]),
    )

    jobs = await store.get([each.job_id for each in held])
    for ((finished,), (recovered,)), job in zip(answers, jobs, strict=True):
        assert finished.accepted is not recovered.accepted
        if finished.accepted:
            assert (job.status, job.result) == (Status.SUCCEEDED, "mine")
            assert (job.errors, job.losses) == ((), 0)
        else:
            assert (job.status, job.result) == (Status.PENDING, None)
            assert (len(job.errors), job.losses) == (1, 1)


async def test_b15_many_recoverers_charge_one_loss(
    store: Store,
    enqueue: Enqueue,
    claim: ClaimSome,
    open_another: OpenAnother,
    scale: int,
) -> None:
    rounds = 50 * scale
    await enqueue(rounds, max_attempts=9)
    held = (await claim(rounds, worker="dead")).claims
    stores = [store, *[await open_another() for _ in range(2)]]

    answers = await race(
        rounds,
        *(
            lambda n, each=each: each.finish([_outcome.lost(held[n])])
            for each in stores
        ),
    )

    for settled in answers:
        assert sorted(each.accepted for (each,) in settled) == [False, False, True]
    for job in await store.get([each.job_id for each in held]):
        assert (job.status, job.losses, job.claims) == (Status.PENDING, 1, 1)


@pytest.mark.parametrize("end", [dead, retry, _outcome.cancelled, _outcome.succeeded])
async def test_law_21_cancel_against_finish_tell_one_story(
    store: Store,
    enqueue: Enqueue,
    claim: ClaimSome,
    open_another: OpenAnother,
    scale: int,
    end: Callable[..., Any],
) -> None:
    rounds = 50 * scale
    await enqueue(rounds)
    held = (await claim(rounds)).claims
    another = await open_another()

    answers = await race(
        rounds,
        lambda n: store.finish([end(held[n].key)]),
        lambda n: another.cancel([held[n].job_id], by="test"),
    )

    jobs = await store.get([each.job_id for each in held])
    for ((settled,), (answer,)), job in zip(answers, jobs, strict=True):
        assert settled.accepted
        # The cancel came first: it was asked of a running job, and counts.
        asked = answer.status is Status.RUNNING
        assert (job.cancel_requested_at is not None) is asked
        if asked:
            wanted = Status.SUCCEEDED if end is _outcome.succeeded else "cancelled"
            assert (settled.status, job.status) == (wanted, wanted)
        elif settled.status is Status.PENDING:
            assert (answer.done, job.status) == (True, Status.CANCELLED)
        else:
            assert not answer.done
            assert answer.status == settled.status == job.status


async def test_law_10_replay_against_enqueue_of_one_key_lets_one_through(
    store: Store, enqueue: Enqueue, open_another: OpenAnother, scale: int
) -> None:
    rounds = 100 * scale
    old = [(await enqueue(idempotency_key=f"k{n}"))[0] for n in range(rounds)]
    await store.cancel(old, by="test")
    another = await open_another()

    answers = await race(
        rounds,
        lambda n: store.replay([old[n]], by="test"),
        lambda n: another.enqueue([new_job(idempotency_key=f"k{n}")]),
    )

    for (answer,), (fresh,) in answers:
        assert answer.done is (fresh is None)
        assert answer.blocked_by == fresh
    page = await store.list(Filter(status=Status.PENDING), limit=9999)
    keys = Counter(job.idempotency_key for job in page.jobs)
    assert keys == {f"k{n}": 1 for n in range(rounds)}


async def test_b29_of_many_who_enqueue_one_key_exactly_one_gets_an_id(
    store: Store, open_another: OpenAnother, scale: int
) -> None:
    rounds = 50 * scale
    stores = [store, *[await open_another() for _ in range(2)]] * 2

    answers = await race(
        rounds,
        *(
            lambda n, each=each: each.enqueue([new_job(idempotency_key=f"k{n}")])
            for each in stores
        ),
    )

    for ids in answers:
        assert sum(job_id is not None for (job_id,) in ids) == 1
    page = await store.list(Filter(), limit=9999)
    assert {job.id for job in page.jobs} == {
        job_id for ids in answers for (job_id,) in ids if job_id is not None
    }


async def test_law_11_pause_against_claim_nothing_is_claimed_after_the_answer(
    store: Store, enqueue: Enqueue, open_another: OpenAnother, scale: int
) -> None:
    await enqueue(1000)
    another = await open_another()
    running = Filter(status=Status.RUNNING)

    async def claim_some(_round: int) -> None:
        for _ in range(10):
            await store.claim(demand(1), worker="w1", lease=LEASE)

    async def pause_and_look(_round: int) -> list[int]:
        await another.pause(Pause(queue="default"))
        return [job.id for job in (await another.list(running, limit=9999)).jobs]

    for _ in range(10 * scale):
        ((_, at_the_pause),) = await race(1, claim_some, pause_and_look)
        page = await store.list(running, limit=9999)
        assert [job.id for job in page.jobs] == at_the_pause
        await another.pause(Pause(queue="default"), resume=True)


async def test_law_12_prune_against_replay_deletes_nothing_that_came_back(
    store: Store, job_in: JobIn, open_another: OpenAnother, clock: FakeClock, scale: int
) -> None:
    rounds = 60 * scale
    old = [await job_in(Status.FAILED) for _ in range(rounds)]
    clock.advance(timedelta(days=400))
    another = await open_another()

    answers = await race(
        rounds,
        lambda n: store.replay([old[rounds - 1 - n]], by="test"),
        lambda _: another.prune(Retention(), limit=2),
    )

    back = {answer.job_id for ((answer,), _) in answers if answer.done}
    gone = {answer.job_id for ((answer,), _) in answers if answer.status is None}
    deleted = sum(pruned.deleted for _, pruned in answers)
    assert back | gone == set(old)
    assert deleted == len(gone)
    left = (await store.list(Filter(), limit=9999)).jobs
    assert {job.id for job in left} == back
    assert {job.status for job in left} <= {Status.PENDING}


async def test_law_8_renew_against_finish_brings_nothing_back(
    store: Store,
    enqueue: Enqueue,
    claim: ClaimSome,
    open_another: OpenAnother,
    scale: int,
) -> None:
    rounds = 50 * scale
    await enqueue(rounds)
    held = (await claim(rounds)).claims
    another = await open_another()

    await race(
        rounds,
        lambda n: store.finish([_outcome.succeeded(held[n].key)]),
        lambda n: another.renew([held[n].key], worker="w1", lease=LEASE),
    )

    for job in await store.get([each.job_id for each in held]):
        assert (job.status, job.leased_until) == (Status.SUCCEEDED, None)


@pytest.mark.usefixtures("processes")
async def test_many_who_migrate_at_once_apply_each_step_once(
    database: str, clock: FakeClock
) -> None:
    stores = [connect(database, clock=clock) for _ in range(6)]
    pending = await stores[0].migrate(dry_run=True)

    ((*applied,),) = await race(
        1, *(lambda _, each=each: each.migrate() for each in stores)
    )

    assert [step for steps in applied for step in steps] == list(pending)
    await asyncio.gather(*(each.open() for each in stores))
    for each in stores:
        assert None not in await each.enqueue([new_job()])
        await each.close()


@pytest.mark.usefixtures("processes")
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
