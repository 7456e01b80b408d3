"""Law 4 whatever brought a job into its line: the order of claims is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._job import Job
from rowlock._store import Store
from rowlock.testing import FakeClock

from .given import (
    LEASE,
    ClaimOne,
    ClaimSome,
    Elapse,
    Enqueue,
    Read,
    dead,
    new_job,
    retry,
)

SECOND = timedelta(seconds=1)
TOP, LOW = 100, -100

# How a job may come to wait in its line. One that was lost with its worker is a
# suspect, and waits in a line of its own.
WAYS = ["enqueued", "retried", "snoozed", "released", "unstarted", "replayed", "left"]


@pytest.fixture
def come_back(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, elapse: Elapse
) -> Callable[[str, int], Awaitable[int]]:
    """Let a job of that priority wait, having come there in that way; its id."""

    async def come_back(way: str, priority: int) -> int:
        if way == "enqueued":
            return (await enqueue(priority=priority))[0]
        # In a queue of its own, so that the claim takes this job and no other.
        (job_id,) = await enqueue(priority=priority, queue="aside", max_attempts=9)
        held = await claim_one(queues={"aside": 1}, worker=f"w-{job_id}")
        assert held.job_id == job_id
        if way in ("left", "lost"):
            await store.renew(
                [held.key], worker=held.worker, lease=LEASE, abandoned=way == "left"
            )
            await elapse(1.1 * LEASE.total_seconds())
            (over,) = [each for each in await store.lost(99) if each.key == held.key]
            await store.finish([_outcome.lost(over)])
        else:
            ends = {
                "retried": retry(held.key),
                "snoozed": _outcome.snoozed(held.key, timedelta(0)),
                "released": _outcome.released(held.key, unstarted=False),
                "unstarted": _outcome.released(held.key, unstarted=True),
                "replayed": dead(held.key),
            }
            await store.finish([ends[way]])
        if way == "replayed":
            await store.replay([job_id], by="ada")
        (answer,) = await store.move([job_id], by="ada", queue="default", priority=None)
        assert answer.done
        return job_id

    return come_back


def in_order(jobs: list[Job]) -> list[int]:
    return [job.id for job in sorted(jobs, key=lambda j: (-j.priority, j.run_at, j.id))]


@pytest.mark.parametrize("first", range(len(WAYS)))
async def test_b109_jobs_are_claimed_in_one_order_however_they_came_to_wait(
    claim: ClaimSome,
    clock: FakeClock,
    read: Read,
    come_back: Callable[[str, int], Awaitable[int]],
    first: int,
) -> None:
    ways = [*WAYS[first:], *WAYS[:first]]
    ids = []
    for priority in (LOW, TOP, 0, TOP):
        for way in ways:
            ids.append(await come_back(way, priority))
            clock.advance(1)
    jobs = [await read(job_id) for job_id in ids]
    # Every return writes a new run_at, so the order is that of the returns.
    assert [job.run_at for job in jobs] == sorted({job.run_at for job in jobs})

    came: list[int] = []
    while held := (await claim(5)).claims:
        came += [each.job_id for each in held]

    assert came == in_order(jobs)
    assert came[: len(WAYS)] == ids[len(WAYS) : 2 * len(WAYS)]


@pytest.mark.parametrize("way", WAYS)
async def test_b109_what_comes_back_is_before_a_stream_of_lower_priority(
    store: Store,
    claim: ClaimSome,
    come_back: Callable[[str, int], Awaitable[int]],
    way: str,
) -> None:
    """The stream brings twice as many as the worker has room for."""
    stream = [new_job(priority=LOW)] * 10
    for _ in range(4):
        await store.enqueue(stream)
        assert len((await claim(5)).claims) == 5
    job_id = await come_back(way, TOP)
    await store.enqueue(stream)

    assert (await claim(5)).claims[0].job_id == job_id


async def test_b109_a_retry_is_before_a_stream_as_soon_as_it_is_due(
    store: Store, enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    (job_id,) = await enqueue(priority=TOP)
    (held,) = (await claim(5)).claims
    await store.finish([retry(held.key, delay=7)])

    cycles = []
    for _ in range(10):
        await store.enqueue([new_job(priority=LOW)] * 10)
        cycles.append([each.job_id for each in (await claim(5)).claims])
        clock.advance(1)

    assert [job_id in cycle for cycle in cycles] == [False] * 7 + [True] + [False] * 2
    assert cycles[7][0] == job_id


async def test_b109_what_was_lost_with_its_worker_waits_apart_and_in_the_same_order(
    store: Store,
    claim: ClaimSome,
    clock: FakeClock,
    read: Read,
    come_back: Callable[[str, int], Awaitable[int]],
) -> None:
    """
    A job that was lost may be what killed its worker: its next attempt runs alone. No
    stream is in its way, since every claim tells of it, and its worker takes it before
    all others once it runs nothing, or has given way to it.
    """
    ids = []
    for priority in (LOW, TOP, 0, TOP):
        ids.append(await come_back("lost", priority))
        clock.advance(1)
    jobs = [await read(job_id) for job_id in ids]
    await store.enqueue([new_job(priority=TOP)] * 20)

    claimed = await claim(5)
    came = [
        each.job_id
        for _ in jobs
        for each in (await claim(1, suspects=True, alone=True)).claims
    ]

    assert len(claimed.claims) == 5
    assert claimed.suspect_since == min(job.run_at for job in jobs)
    assert came == in_order(jobs)


async def test_b109_a_retry_of_one_queue_is_not_behind_the_backlog_of_another(
    store: Store, claim: ClaimSome, clock: FakeClock
) -> None:
    await store.enqueue([new_job(queue="a", priority=TOP)] * 100)
    await store.enqueue([new_job(queue="b", priority=LOW)])
    queues = [held.queue for held in (await claim(2)).claims]
    assert sorted(queues) == ["a", "b"]
    (held,) = [held for held in await store.lost(9, worker="w1") if held.queue == "b"]
    await store.finish([retry(held.key, delay=7)])

    starts = []
    for _ in range(10):
        starts.append([each.queue for each in (await claim(2)).claims].count("b"))
        clock.advance(1)

    assert starts == [0] * 7 + [1, 0, 0]
