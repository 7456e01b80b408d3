"""Replaying at a pace: each job is due one step after the one before it."""

from __future__ import annotations

from datetime import timedelta

from rowlock._job import Status
from rowlock._store import Store
from rowlock.testing import FakeClock

from .given import ClaimSome, Enqueue, JobIn, Read

SECOND = timedelta(seconds=1)


async def test_the_first_is_due_after_the_delay_and_each_other_a_step_later(
    store: Store, job_in: JobIn, read: Read, clock: FakeClock
) -> None:
    ids = [await job_in(Status.FAILED) for _ in range(4)]

    answers = await store.replay(ids, by="ada", delay=7 * SECOND, pace=2 * SECOND)

    assert all(answer.done for answer in answers)
    due = [(await read(job_id)).run_at - clock.now() for job_id in ids]
    assert due == [7 * SECOND, 9 * SECOND, 11 * SECOND, 13 * SECOND]


async def test_the_order_of_the_ids_is_that_of_the_steps(
    store: Store, job_in: JobIn, read: Read, clock: FakeClock
) -> None:
    a, b, c = [await job_in(Status.FAILED) for _ in range(3)]

    await store.replay([b, c, a], by="ada", pace=SECOND)

    due = [(await read(job_id)).run_at - clock.now() for job_id in (a, b, c)]
    assert due == [2 * SECOND, 0 * SECOND, SECOND]


async def test_a_job_that_is_left_keeps_its_place_in_the_line(
    store: Store, job_in: JobIn, read: Read, clock: FakeClock
) -> None:
    first = await job_in(Status.FAILED)
    done = await job_in(Status.SUCCEEDED)
    cancelled = await job_in(Status.CANCELLED)

    answers = await store.replay([first, done, cancelled], by="ada", pace=SECOND)

    assert [str(answer) for answer in answers] == ["done", "already succeeded", "done"]
    assert (await read(first)).run_at == clock.now()
    assert (await read(cancelled)).run_at == clock.now() + 2 * SECOND


async def test_a_replay_goes_into_another_queue_and_the_story_says_so(
    store: Store, job_in: JobIn, read: Read, claim: ClaimSome
) -> None:
    ids = [await job_in(Status.FAILED), await job_in(Status.CANCELLED)]

    await store.replay(ids, by="ada", queue="calm")

    for job_id in ids:
        job = await read(job_id)
        assert job.queue == "calm"
        act = job.errors[-1]
        assert (act["event"], act["by"], act["queue"]) == ("replay", "ada", "calm")
    claimed = await claim(queues={"calm": 9})
    assert {each.job_id for each in claimed.claims} == set(ids)


async def test_without_a_queue_each_goes_where_it_was(
    store: Store, job_in: JobIn, read: Read
) -> None:
    job_id = await job_in(Status.FAILED, queue="mail")

    await store.replay([job_id], by="ada")

    job = await read(job_id)
    assert job.queue == "mail"
    assert "queue" not in job.errors[-1]


async def test_an_id_given_twice_is_due_where_it_stood_first(
    store: Store, job_in: JobIn, read: Read, clock: FakeClock
) -> None:
    a, b = await job_in(Status.FAILED), await job_in(Status.FAILED)

    await store.replay([a, b, a], by="ada", pace=SECOND)

    assert (await read(a)).run_at == clock.now()
    assert (await read(b)).run_at == clock.now() + SECOND


async def test_law_4_what_is_replayed_at_a_pace_is_claimed_in_its_order(
    store: Store, enqueue: Enqueue, claim: ClaimSome, job_in: JobIn, clock: FakeClock
) -> None:
    ids = [await job_in(Status.FAILED, queue="default") for _ in range(3)]
    await store.replay(ids[::-1], by="ada", pace=SECOND)

    assert [each.job_id for each in (await claim()).claims] == [ids[2]]
    clock.advance(2)
    assert [each.job_id for each in (await claim()).claims] == [ids[1], ids[0]]
    assert await enqueue()
