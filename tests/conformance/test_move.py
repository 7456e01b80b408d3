"""Move: another queue, priority or due time, for pending jobs only."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock._job import Status
from rowlock._store import Answer, Store
from rowlock.testing import FakeClock

from .given import ClaimSome, Enqueue, JobIn, Read


async def test_a_pending_job_moves_to_another_queue(
    store: Store, enqueue: Enqueue, claim: ClaimSome, read: Read, clock: FakeClock
) -> None:
    (job_id,) = await enqueue(priority=3)
    due = (await read(job_id)).run_at
    clock.advance(5)

    (answer,) = await store.move([job_id], by="ada", queue="fast")

    assert answer == Answer(job_id=job_id, done=True, status=Status.PENDING)
    job = await read(job_id)
    assert (job.queue, job.priority, job.run_at) == ("fast", 3, due)
    assert (await claim(queues={"default": 5})).claims == ()
    assert len((await claim(queues={"fast": 5})).claims) == 1


async def test_a_priority_moves_it_ahead(
    store: Store, enqueue: Enqueue, claim: ClaimSome, read: Read
) -> None:
    first, second = await enqueue(2)

    await store.move([second], by="ada", priority=1)

    assert (await read(second)).queue == "default"
    assert [held.job_id for held in (await claim()).claims] == [second, first]


async def test_a_priority_of_zero_is_a_priority(
    store: Store, enqueue: Enqueue, read: Read
) -> None:
    (job_id,) = await enqueue(priority=9)

    await store.move([job_id], by="ada", priority=0)

    assert (await read(job_id)).priority == 0


@pytest.mark.parametrize("delay", [0, 0.5, 3600])
async def test_a_delay_counts_from_the_stores_now(
    store: Store,
    enqueue: Enqueue,
    claim: ClaimSome,
    clock: FakeClock,
    read: Read,
    delay: float,
) -> None:
    (job_id,) = await enqueue(delay=timedelta(days=9))
    clock.advance(100)

    await store.move([job_id], by="ada", delay=timedelta(seconds=delay))

    assert (await read(job_id)).run_at == clock.now() + timedelta(seconds=delay)
    clock.advance(delay)
    assert len((await claim()).claims) == 1


async def test_a_move_names_the_operator(
    store: Store, enqueue: Enqueue, read: Read, clock: FakeClock
) -> None:
    (job_id,) = await enqueue()
    clock.advance(5)

    await store.move([job_id], by="ada", priority=1)

    job = await read(job_id)
    (act,) = job.errors
    assert "ada" in act.values()
    assert job.updated_at == clock.now()
    assert job.last_error is None


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.PENDING])
async def test_what_is_not_pending_does_not_move(
    store: Store, job_in: JobIn, read: Read, status: Status
) -> None:
    job_id = await job_in(status)
    before = await read(job_id)

    (answer,) = await store.move(
        [job_id], by="ada", queue="fast", priority=1, delay=timedelta(1)
    )

    assert answer == Answer(job_id=job_id, done=False, status=status)
    assert await read(job_id) == before


async def test_answers_come_in_the_order_given(store: Store, job_in: JobIn) -> None:
    running = await job_in(Status.RUNNING)
    pending = await job_in(Status.PENDING)

    answers = await store.move([999_999_999, pending, running], by="ada", priority=1)

    assert [(each.job_id, each.done, each.status) for each in answers] == [
        (999_999_999, False, None),
        (pending, True, "pending"),
        (running, False, "running"),
    ]
    assert list(await store.move([], by="ada", priority=1)) == []
