"""Turns: several queues with due jobs, in proportion to what they weigh (law 13)."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from rowlock._store import Store
from rowlock.testing import FakeClock

from .given import ClaimSome, OpenAnother, new_job

SECOND = timedelta(seconds=1)


async def fill(store: Store, **queues: int) -> None:
    """Enqueue so many jobs into each queue."""
    await store.enqueue(
        [new_job(queue=queue) for queue, count in queues.items() for _ in range(count)]
    )


async def queues_of(claim: ClaimSome, total: int, **options: object) -> list[str]:
    """Claim, and tell of which queues, in the order to start them."""
    return [held.queue for held in (await claim(total, **options)).claims]


@pytest.mark.parametrize("total", [1, 2, 6, 7, 50])
async def test_queues_get_starts_in_proportion_to_their_weights(
    store: Store, claim: ClaimSome, total: int
) -> None:
    await fill(store, a=120, b=120, c=120)
    weights = {"a": 3, "b": 2}

    started: Counter[str] = Counter()
    while started.total() < 150:
        started.update(await queues_of(claim, total, weights=weights))
        for queue, weight in {**weights, "c": 1}.items():
            assert abs(started[queue] - started.total() * weight / 6) < 1


async def test_jobs_start_as_their_queues_take_turns(
    store: Store, claim: ClaimSome
) -> None:
    await fill(store, busy=30, small=30)

    queues = await queues_of(claim, 20, weights={"busy": 4})

    # Else the first jobs of one would wait until many of the other have run.
    for started in range(1, 21):
        assert abs(queues[:started].count("small") - started / 5) < 1


async def test_without_weights_all_queues_get_the_same(
    store: Store, claim: ClaimSome
) -> None:
    await fill(store, a=9, b=9, c=9)

    served = [await queues_of(claim, total) for total in (1, 1, 1, 4, 5)]

    assert served == [["a"], ["b"], ["c"], [*"abca"], [*"bcabc"]]


async def test_a_queue_of_weight_1_is_not_starved_beside_one_of_100(
    store: Store, claim: ClaimSome
) -> None:
    await fill(store, busy=210, small=10)

    served = [
        *[await queues_of(claim, 1, weights={"busy": 100}) for _ in range(101)],
        await queues_of(claim, 101, weights={"busy": 100}),
    ]

    assert sum(each.count("small") for each in served[:-1]) == 1
    assert served[-1].count("small") == 1


async def test_a_weight_lifts_no_limit(store: Store, claim: ClaimSome) -> None:
    await fill(store, heavy=9, light=9)

    served = await queues_of(
        claim, 8, queues={"heavy": 2, "light": 9}, weights={"heavy": 100}
    )

    assert Counter(served) == {"heavy": 2, "light": 6}


@pytest.mark.parametrize("queues", [None, {"heavy": 9, "light": 9, "none": 9}])
async def test_what_a_heavy_queue_cannot_use_goes_to_the_others(
    store: Store, claim: ClaimSome, queues: dict[str, int] | None
) -> None:
    await fill(store, heavy=1, light=9)

    served = await queues_of(
        claim, 8, queues=queues, weights={"heavy": 100, "none": 100}
    )

    assert Counter(served) == {"heavy": 1, "light": 7}


async def test_what_one_cannot_use_goes_to_the_others_alike(
    store: Store, claim: ClaimSome
) -> None:
    await fill(store, a=60, b=60)
    started: Counter[str] = Counter()

    # Six is twice round: the turn would be the same queue's at every claim.
    for _ in range(12):
        await fill(store, c=1)
        started.update(await queues_of(claim, 6))

    assert started["c"] == 12
    assert abs(started["a"] - started["b"]) <= 1


async def test_many_queues_with_little_leave_no_room_unused(
    store: Store, claim: ClaimSome
) -> None:
    await fill(store, **{f"q{n}": n for n in range(1, 12)})

    served = await queues_of(claim, 60, weights={"q1": 100, "q2": 50})

    assert len(served) == 60
    assert len(await queues_of(claim, 60)) == 6


async def test_a_queue_without_room_yields_nothing_and_is_in_nobodys_way(
    store: Store, claim: ClaimSome, clock: FakeClock
) -> None:
    await fill(store, full=50, other=2)
    limits = {"full": 0, "other": 5}

    assert await queues_of(claim, 1, queues=limits) == ["other"]
    assert await queues_of(claim, 5, queues=limits) == ["other"]
    # What waits there is no reason to look again.
    assert (await claim(5, queues=limits)).next_due is None
    await store.enqueue([new_job(queue="full", delay=SECOND)])
    await store.enqueue([new_job(queue="other", delay=9 * SECOND)])
    due = (await claim(5, queues=limits)).next_due
    assert due == clock.now() + 9 * SECOND
    # When it has room again, it is where it was.
    served = await queues_of(claim, 5, queues={"full": 3, "other": 5})
    assert served == ["full"] * 3
    clock.advance(20)
    served = await queues_of(claim, 9, queues={"full": 6, "other": 0})
    assert served == ["full"] * 6


async def test_where_every_queue_is_full_nothing_is_claimed(
    store: Store, claim: ClaimSome
) -> None:
    await fill(store, a=5, b=5)
    limits = {"a": 0, "b": 0}

    claimed = await claim(5, queues=limits)

    assert (claimed.claims, claimed.next_due) == ((), None)
    assert len(await queues_of(claim, 9, queues={"a": 4, "b": 4})) == 8


async def test_a_demand_of_some_queues_takes_none_of_the_others_turns(
    store: Store, claim: ClaimSome
) -> None:
    await fill(store, a=20, b=20, c=20)

    served: Counter[str] = Counter()
    for _ in range(6):
        served.update(await queues_of(claim, 1, queues={"a": 1, "b": 1, "c": 0}))
        served.update(await queues_of(claim, 1, queues={"a": 0, "c": 1, "b": 1}))

    assert served == {"a": 3, "b": 6, "c": 3}


async def test_suspects_take_turns_of_their_own(store: Store, claim: ClaimSome) -> None:
    await fill(store, a=9, b=9)

    served = []
    for _ in range(6):
        assert not (await claim(1, suspects=True)).claims
        served += await queues_of(claim, 1)

    assert Counter(served) == {"a": 3, "b": 3}


async def test_a_queue_whose_jobs_become_due_unheard_gets_its_share_and_no_more(
    store: Store, claim: ClaimSome, clock: FakeClock
) -> None:
    await fill(store, a=500)
    await store.enqueue(
        [new_job(queue="b", delay=n * SECOND) for n in range(20) for _ in range(9)]
    )
    started: Counter[str] = Counter()

    for _ in range(20):
        started.update(await queues_of(claim, 10))
        clock.advance(1)

    # Of the first of them nobody knew that they had become due.
    assert 5 * 20 <= started["b"] <= 5 * 20 + 5
    assert started.total() == 200


async def test_a_job_that_nobody_told_of_does_not_wait_behind_a_backlog(
    store: Store, claim: ClaimSome, open_another: OpenAnother
) -> None:
    another = await open_another()
    await fill(store, busy=100, other=1)
    assert Counter(await queues_of(claim, 2)) == {"busy": 1, "other": 1}
    assert await queues_of(claim, 2) == ["busy"] * 2

    # Nobody listens here.
    await another.enqueue([new_job(queue="other")])

    assert "other" in await queues_of(claim, 2)
