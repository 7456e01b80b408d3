"""
Real concurrency: threads with loops of their own, stores of their own, processes.

Each race is run many times over. What is asked is never who wins, but that somebody
does, and that all are told the same story.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import ClaimKey, Status
from rowlock._store import Pause, Retention, Store
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
from .race import Patient, race


@pytest.fixture
def store(store: Store) -> Store:
    """Races are for locks, and on a busy machine one may be lost for a second."""
    return cast("Store", Patient(store))


@pytest.fixture
def open_another(open_another: OpenAnother) -> OpenAnother:
    """The same for each store that joins the race."""

    async def patient() -> Store:
        return cast("Store", Patient(await open_another()))

    return patient


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


async def test_law_9_renew_against_recover_one_of_them_is_told_no(
    store: Store,
    enqueue: Enqueue,
    claim: ClaimSome,
    open_another: OpenAnother,
    scale: int,
) -> None:
    rounds = 200 * scale
    await enqueue(rounds)
    held = (await claim(rounds)).claims
    another = await open_another()
    read = {each.key: each for each in await another.lost(rounds, worker="w1")}

    answers = await race(
        rounds,
        lambda n: store.renew([held[n].key], worker="w1", lease=2 * LEASE),
        lambda n: another.finish([_outcome.lost(read[held[n].key])]),
    )

    jobs = await store.get([each.job_id for each in held])
    for (renewal, (recovered,)), job in zip(answers, jobs, strict=True):
        assert recovered.accepted is (recovered.key in renewal.lost)
        assert (job.status is Status.RUNNING) is not recovered.accepted
        assert job.losses == recovered.accepted


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
