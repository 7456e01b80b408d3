"""Figures: where a job stands in its queue, and how fast a queue is."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

import pytest

from rowlock._answers import Overview, Pause, TaskInfo, TaskStats
from rowlock._figures import AHEAD_COUNTED, Place
from rowlock._job import Outcome, Status
from rowlock._store import Store
from rowlock.testing import FakeClock

from .given import ClaimOne, ClaimSome, Enqueue, JobIn
from .test_register import WORKER

SECOND = timedelta(seconds=1)


async def where(
    store: Store, job_id: int, *tasks: str, queue: str = "default"
) -> Place | None:
    """Ask where a job stands among those of `task`, or of these tasks."""
    return await store.figures.place(job_id, queue=queue, tasks=tasks or ("task",))


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

    place = await where(store, job_id, "task", "else")

    assert place == Place(is_suspect=False, ahead=7, by_priority=3, rate=0.0)


async def test_what_is_planned_stands_behind_all_that_is_due(
    store: Store, enqueue: Enqueue
) -> None:
    await enqueue(2, priority=1)
    await enqueue(2)
    (planned,) = await enqueue(delay=SECOND)
    await enqueue(delay=2 * SECOND)
    await enqueue()

    place = await where(store, planned)

    assert place == Place(is_suspect=False, ahead=5, by_priority=2, rate=0.0)


async def test_who_has_expired_is_in_nobodys_way(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock
) -> None:
    soon = clock.now() + SECOND
    (once_started,) = await enqueue(expires_at=soon)
    held = await claim_one()
    assert held.job_id == once_started
    await store.finish([Outcome(key=held.key, status=Status.PENDING)])
    await enqueue(3, expires_at=soon)
    (job_id,) = await enqueue()
    clock.advance(2)

    place = await where(store, job_id)

    assert place == Place(is_suspect=False, ahead=1, by_priority=0, rate=0.0)


async def test_a_place_is_in_the_queue_that_is_asked_for(
    store: Store, enqueue: Enqueue
) -> None:
    (job_id,) = await enqueue(queue="mail")

    assert await where(store, job_id) is None
    assert await where(store, job_id, queue="mail") is not None


async def test_no_more_are_counted_than_anybody_needs_to_know(
    store: Store, enqueue: Enqueue
) -> None:
    await enqueue(AHEAD_COUNTED - 1, priority=1)
    await enqueue(2)
    (job_id,) = await enqueue()

    place = await where(store, job_id)

    assert place is not None
    assert (place.ahead, place.by_priority) == (AHEAD_COUNTED, AHEAD_COUNTED - 1)


async def test_a_place_is_the_number_of_claims_before(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    for priority in (0, 5, -5, 0, 5):
        await enqueue(2, priority=priority)
    listed = (await claim(100)).claims
    again = [Outcome(key=each.key, status=Status.PENDING) for each in listed]
    await store.finish(again)

    places = [await where(store, each.job_id) for each in listed]

    assert [place.ahead for place in places if place] == list(range(10))


async def test_the_first_of_all_has_nobody_before_it(
    store: Store, enqueue: Enqueue
) -> None:
    (job_id,) = await enqueue()

    for tasks in ({"task"}, set[str]()):
        place = await store.figures.place(job_id, queue="default", tasks=tasks)
        assert place == Place(is_suspect=False, ahead=0, by_priority=0, rate=0.0)


async def test_a_suspect_stands_among_suspects(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    await enqueue(3)
    held = (await claim()).claims
    await store.finish(
        [Outcome(key=each.key, status=Status.PENDING, lost=True) for each in held]
    )
    (calm,) = await enqueue()

    suspect = await where(store, held[1].job_id)
    other = await where(store, calm)

    assert suspect == Place(is_suspect=True, ahead=1, by_priority=0, rate=0.0)
    assert other == Place(is_suspect=False, ahead=0, by_priority=0, rate=0.0)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.PENDING])
async def test_what_isnt_pending_has_no_place(
    store: Store, job_in: JobIn, status: Status
) -> None:
    assert await where(store, await job_in(status)) is None


async def test_what_isnt_there_has_no_place(store: Store) -> None:
    assert await where(store, 999_999_999) is None


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
    store: Store, job_in: JobIn, enqueue: Enqueue, claim_one: ClaimOne, clock: FakeClock
) -> None:
    await job_in(Status.SUCCEEDED, queue="a")
    clock.advance(59)
    for status in reversed(Status):  # a pending one would be claimed for the next
        await job_in(status, queue="a")
    await job_in(Status.PENDING, queue="b")

    rates = {queue.queue: queue.rate for queue in (await store.stats()).queues}
    assert rates == {"a": pytest.approx(4 / 60), "b": 0.0}
    (waiting,) = await enqueue(queue="a")
    place = await where(store, waiting, queue="a")
    assert place is not None
    assert place.rate == rates["a"]

    clock.advance(2)
    assert (await store.stats()).queues[0].rate == pytest.approx(3 / 60)
    clock.advance(60)
    assert (await store.stats()).queues[0].rate == 0.0
    assert (await claim_one(queues={"b": 1})).queue == "b"


async def test_an_overview_and_what_is_due_are_those_of_the_stats(
    store: Store, enqueue: Enqueue, job_in: JobIn
) -> None:
    await store.register(WORKER, [TaskInfo(name="task", queue="mail", defaults={})])
    await job_in(Status.FAILED)
    await store.pause(Pause(queue="mail", reason="no mail"))
    await store.pause(Pause(task="task"), for_=60 * SECOND)
    await enqueue(3, queue="a")
    await enqueue(queue="b", delay=SECOND)

    seen, stats = await store.figures.overview(), await store.stats()

    assert {worker.id for worker in seen.workers} == {"w1"}
    assert {(each.queue, each.task) for each in seen.pauses} == {
        ("mail", None),
        (None, "task"),
    }
    assert [each.name for each in seen.registered] == ["task"]
    for each in fields(seen):
        assert getattr(seen, each.name) == getattr(stats, each.name)
    due = (TaskStats(queue="a", task="task", due=3),)
    assert tuple(await store.figures.due()) == stats.tasks == due


async def test_an_empty_store_has_an_overview(store: Store, clock: FakeClock) -> None:
    assert await store.figures.overview() == Overview(
        now=clock.now(), workers=(), pauses=()
    )
    assert tuple(await store.figures.due()) == ()
