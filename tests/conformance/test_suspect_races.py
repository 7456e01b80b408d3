"""Races for suspects: of many who ask at once one has it, and one gives way."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock._job import Claim, Status
from rowlock._store import Claimed, Store, WorkerInfo
from rowlock.testing import FakeClock

from .given import LEASE, Enqueue, OpenAnother, demand
from .race import Patient, race

NO_DELAY = timedelta(0)


@pytest.fixture
def store(store: Store) -> Store:
    """Races are for locks, and on a busy machine one may be lost for a second."""
    return cast("Store", Patient(store))


@pytest.fixture
async def stores(store: Store, open_another: OpenAnother) -> list[Store]:
    """Four processes on one database."""
    others = [await open_another() for _ in range(3)]
    return [store, *(cast("Store", Patient(other)) for other in others)]


async def take(store: Store, worker: str, *, suspects: bool) -> list[Claim]:
    """Claim one after the other, as workers with little room do, while there is any."""
    taken: list[Claim] = []
    while True:
        claimed = await store.claim(
            demand(1 if suspects else 3, suspects=suspects),
            worker=worker,
            lease=LEASE,
            alone=suspects,
        )
        if not claimed.claims:
            return taken
        taken += claimed.claims


async def lose(store: Store, held: list[Claim]) -> None:
    """Recover claims of a worker that was lost, each at a time of its own."""
    for each in held:
        await store.finish([_outcome.lost(each)._replace(delay=NO_DELAY)])


async def test_law_3_many_who_ask_for_suspects_get_each_once_and_nothing_else(
    store: Store, stores: list[Store], enqueue: Enqueue, scale: int
) -> None:
    lost = await enqueue(60 * scale, max_attempts=9)
    await lose(store, await take(store, "w-dead", suspects=False))
    others = await enqueue(60 * scale)

    ((*taken,),) = await race(
        1,
        *(
            lambda _, n=n, each=each: take(each, f"w{n}", suspects=n % 2 == 0)
            for n, each in enumerate(stores)
        ),
    )

    alone = [held.job_id for some in taken[::2] for held in some]
    beside = [held.job_id for some in taken[1::2] for held in some]
    assert sorted(alone) == lost
    assert sorted(beside) == others
    page = await store.list(Filter(status=Status.RUNNING), limit=9999)
    assert {job.id: job.claims for job in page.jobs} == {
        **dict.fromkeys(lost, 2),
        **dict.fromkeys(others, 1),
    }


async def test_who_claims_while_jobs_become_suspects_takes_none_of_them(
    store: Store, stores: list[Store], enqueue: Enqueue, scale: int
) -> None:
    """Recovery puts them into the very lines that others claim from."""
    rounds = 30 * scale
    lost = await enqueue(rounds, max_attempts=9)
    held = await take(store, "w-dead", suspects=False)

    answers = await race(
        rounds,
        lambda n: lose(store, [held[n]]),
        lambda n: take(stores[1], f"other{n}", suspects=False),
        lambda n: take(stores[2], f"first{n}", suspects=True),
        lambda n: take(stores[3], f"second{n}", suspects=True),
    )

    assert all(beside == [] for _, beside, _, _ in answers)
    taken = [held for _, _, *pair in answers for some in pair for held in some]
    taken += await take(store, "last", suspects=True)
    assert sorted(held.job_id for held in taken) == lost
    assert {(held.key.claim, held.losses, held.alone) for held in taken} == {
        (2, 1, True)
    }


async def test_of_all_who_ask_at_once_one_is_chosen_to_give_way(
    store: Store,
    stores: list[Store],
    enqueue: Enqueue,
    clock: FakeClock,
    scale: int,
) -> None:
    await enqueue(max_attempts=9)
    await lose(store, await take(store, "w-dead", suspects=False))
    for n in range(len(stores)):
        clock.advance(1)
        await store.register(info(f"w{n}"), [])

    async def ask(each: Store, worker: str) -> Claimed:
        return await each.claim(demand(0), worker=worker, lease=LEASE)

    answers = await race(
        20 * scale,
        *(
            lambda _, n=n, each=each: ask(each, f"w{n}")
            for n, each in enumerate(stores)
        ),
    )

    for told in answers:
        assert all(each.suspect_since is not None for each in told)
        assert [each.chosen_since is not None for each in told] == [
            *[False] * (len(stores) - 1),
            True,
        ]


def info(worker: str) -> WorkerInfo:
    return WorkerInfo(
        id=worker,
        host="host",
        pid=1,
        version="1",
        rowlock="1",
        tasks=("task",),
        queues=None,
        concurrency=10,
        lease=LEASE,
    )
