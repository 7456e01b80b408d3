"""Figures: where a job stands in its queue, and how fast a queue is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock._figures import Place
from rowlock._job import Outcome, Status
from rowlock._store import Store
from rowlock.testing import FakeClock

from .given import ClaimOne, ClaimSome, Enqueue, JobIn

SECOND = timedelta(seconds=1)


async def test_a_place_counts_who_is_claimed_before(
    store: Store, enqueue: Enqueue
) -> None:
    await enqueue(3, priority=2)
    await enqueue(2, priority=1, delay=-SECOND)
    await enqueue(2, priority=1)
    (job_id,) = await enqueue(priority=1)
    # None of these is claimed before it.
    await enqueue(priority=1)
    await enqueue(priority=2, delay=60 * SECOND)
    await enqueue(priority=2, queue="other")
    await enqueue(priority=2, task="unserved")
    await enqueue()

    place = await store.figures.place(job_id, tasks={"task", "else"})

    assert place == Place(is_suspect=False, ahead=7, by_priority=3)


async def test_a_place_is_the_number_of_claims_before(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    for priority in (0, 5, -5, 0, 5):
        await enqueue(2, priority=priority)
    listed = (await claim(100)).claims
    again = [Outcome(key=each.key, status=Status.PENDING) for each in listed]
    await store.finish(again)

    places = [await store.figures.place(each.job_id, tasks={"task"}) for each in listed]

    assert [place.ahead for place in places if place] == list(range(10))


async def test_the_first_of_all_has_nobody_before_it(
    store: Store, enqueue: Enqueue
) -> None:
    (job_id,) = await enqueue()

    for tasks in ({"task"}, set[str]()):
        place = await store.figures.place(job_id, tasks=tasks)
        assert place == Place(is_suspect=False, ahead=0, by_priority=0)


async def test_a_suspect_stands_among_suspects(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    await enqueue(3)
    held = (await claim()).claims
    await store.finish(
        [Outcome(key=each.key, status=Status.PENDING, lost=True) for each in held]
    )
    (calm,) = await enqueue()

    suspect = await store.figures.place(held[1].job_id, tasks={"task"})
    other = await store.figures.place(calm, tasks={"task"})

    assert suspect == Place(is_suspect=True, ahead=1, by_priority=0)
    assert other == Place(is_suspect=False, ahead=0, by_priority=0)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.PENDING])
async def test_what_isnt_pending_has_no_place(
    store: Store, job_in: JobIn, status: Status
) -> None:
    assert await store.figures.place(await job_in(status), tasks={"task"}) is None


async def test_what_isnt_there_has_no_place(store: Store) -> None:
    assert await store.figures.place(999_999_999, tasks={"task"}) is None


async def test_law_14_it_tells_the_time_that_its_instants_are_compared_with(
    store: Store, enqueue: Enqueue, clock: FakeClock
) -> None:
    clock.advance(0.123456)
    (job_id,) = await enqueue()
    (job,) = await store.get([job_id])

    assert await store.figures.now() == job.created_at == clock.now()
    clock.advance(59)
    assert await store.figures.now() == clock.now()


async def test_a_queues_rate_is_of_what_ended_within_a_minute(
    store: Store, job_in: JobIn, claim_one: ClaimOne, clock: FakeClock
) -> None:
    await job_in(Status.SUCCEEDED, queue="a")
    clock.advance(59)
    for status in reversed(Status):  # a pending one would be claimed for the next
        await job_in(status, queue="a")
    await job_in(Status.PENDING, queue="b")

    rates = {queue.queue: queue.rate for queue in (await store.stats()).queues}
    assert rates == {"a": pytest.approx(4 / 60), "b": 0.0}

    clock.advance(2)
    assert (await store.stats()).queues[0].rate == pytest.approx(3 / 60)
    clock.advance(60)
    assert (await store.stats()).queues[0].rate == 0.0
    assert (await claim_one(queues={"b": 1})).queue == "b"
