"""What a claim costs, and how queues share it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._store import Demand, Pause
from rowlock.stores.sqlite import SQLiteStore
from rowlock.stores.sqlite import claim as claiming
from rowlock.stores.sqlite.thread import PENDING
from rowlock.stores.turns import Turns
from rowlock.testing import FakeClock

from .sqlite_given import claim, new_job, opened

HOUR = timedelta(hours=1)


@pytest.fixture
async def store(clock: FakeClock) -> AsyncIterator[SQLiteStore]:
    """A store in memory."""
    async with opened(":memory:", clock=clock) as store:
        yield store


async def steps_of_a_claim(store: SQLiteStore, **options: object) -> int:
    """Count what SQLite's machine does for a claim, in hundreds of steps; undo it."""
    demand = Demand(total=10, tasks=frozenset({"task"}), **options)  # type: ignore[arg-type]  # a test's own
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    def run(connection: sqlite3.Connection, now: int) -> None:
        connection.set_progress_handler(count, 100)
        try:
            claiming.claim(
                connection,
                now,
                demand,
                Turns(),
                worker="w1",
                lease=60_000_000,
                alone=False,
            )
        finally:
            connection.set_progress_handler(None, 100)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await store._database.write(run)
    return steps


async def test_law_16_unknown_tasks_and_planned_jobs_cost_nothing(
    store: SQLiteStore,
) -> None:
    await store.enqueue([new_job(), new_job(delay=HOUR), new_job(task="unknown")])
    few = await steps_of_a_claim(store)

    await store.enqueue([new_job(task="unknown")] * 20_000)
    await store.enqueue([new_job(delay=HOUR)] * 20_000)

    assert await steps_of_a_claim(store) <= 2 * few + 5


async def test_law_16_what_has_finished_costs_nothing(store: SQLiteStore) -> None:
    await store.enqueue([new_job(), new_job(delay=HOUR)])
    few = await steps_of_a_claim(store)
    await store.enqueue([new_job(task="done")] * 5_000)
    held = (await claim(store, 5_000, "done")).claims
    await store.finish([_outcome.succeeded(each.key) for each in held])

    assert await steps_of_a_claim(store) <= few + 2


async def test_a_backlog_costs_no_more_than_what_is_taken_of_it(
    store: SQLiteStore,
) -> None:
    await store.enqueue([new_job()] * 20)
    few = await steps_of_a_claim(store)
    await store.enqueue([new_job()] * 20_000)

    assert await steps_of_a_claim(store) <= few + 5


async def test_many_queues_cost_a_step_each_and_not_their_jobs(
    store: SQLiteStore,
) -> None:
    await store.enqueue([new_job(queue=f"q{n % 50}") for n in range(50)])
    few = await steps_of_a_claim(store)
    await store.enqueue([new_job(queue=f"q{n % 50}") for n in range(20_000)])

    assert await steps_of_a_claim(store) <= 2 * few
    named = await steps_of_a_claim(store, queues={"q7": 5})
    assert named <= few / 4


async def test_queues_are_dealt_to_in_turn(store: SQLiteStore) -> None:
    await store.enqueue([new_job(queue="busy", priority=100)] * 100)
    await store.enqueue([new_job(queue=queue) for queue in "ab" for _ in range(3)])

    queues = [held.queue for held in (await claim(store, 9)).claims]

    assert Counter(queues) == {"busy": 3, "a": 3, "b": 3}
    assert set(queues[:3]) == set(queues[3:6]) == {"busy", "a", "b"}
    # What the small ones don't need goes to the busy one.
    assert len((await claim(store, 50)).claims) == 50


async def test_a_worker_with_room_for_one_serves_all_queues(store: SQLiteStore) -> None:
    await store.enqueue([new_job(queue="busy", priority=100)] * 100)
    await store.enqueue([new_job(queue="small", priority=-100)] * 4)

    served = [(await claim(store, 1)).claims[0].queue for _ in range(8)]

    assert Counter(served) == {"busy": 4, "small": 4}


@pytest.mark.parametrize("total", [1, 2, 3, 7, 100])
async def test_law_4_a_claim_in_parts_is_in_order_too(
    store: SQLiteStore, clock: FakeClock, total: int
) -> None:
    jobs = [
        new_job(
            task="ab"[n % 2],
            priority=n % 3,
            run_at=clock.now() + timedelta(seconds=n * 7 % 10),
        )
        for n in range(60)
    ]
    ids = await store.enqueue(jobs)
    clock.advance(10)
    wanted = sorted(
        zip(ids, jobs, strict=True),
        key=lambda pair: (-pair[1].priority, pair[1].run_at, pair[0]),
    )

    came: list[int] = []
    while held := (await claim(store, total, "a", "b")).claims:
        came += [each.job_id for each in held]

    assert came == [job_id for job_id, _ in wanted]


async def test_next_due_is_the_end_of_a_pause_that_is_in_the_way(
    store: SQLiteStore, clock: FakeClock
) -> None:
    await store.enqueue([new_job(), new_job(queue="other", delay=5 * HOUR)])
    await store.pause(Pause(queue="default"), for_=HOUR)
    assert (await claim(store)).next_due == clock.now() + HOUR

    await store.pause(Pause(task="task"), for_=2 * HOUR)
    # Both have to end.
    assert (await claim(store)).next_due == clock.now() + 2 * HOUR

    await store.pause(Pause(queue="default"))
    # Of the paused queue nothing comes by itself; of the other, as planned.
    assert (await claim(store)).next_due == clock.now() + 5 * HOUR


async def test_a_pause_that_ends_before_the_job_is_due_is_not_in_the_way(
    store: SQLiteStore, clock: FakeClock
) -> None:
    await store.enqueue([new_job(delay=3 * HOUR)])
    await store.pause(Pause(queue="default"), for_=HOUR)

    assert (await claim(store)).next_due == clock.now() + 3 * HOUR


async def test_a_claim_between_reading_and_writing_meets_a_pause(
    store: SQLiteStore,
) -> None:
    """Chosen is what is there under the lock, whatever was seen before it."""
    await store.enqueue([new_job()])
    demand = Demand(total=10, tasks=frozenset({"task"}))
    assert await store._database.read(
        lambda c, now: claiming.peek(c, now, demand, worker="w") is PENDING
    )
    await store.pause(Pause(queue="default"))

    claimed = await store._database.write(
        lambda c, now: claiming.claim(
            c, now, demand, Turns(), worker="w", lease=60_000_000, alone=False
        )
    )

    assert claimed.claims == ()
