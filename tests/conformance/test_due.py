"""Which job is next: law 4, what is due, what is planned, what has expired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from rowlock import _outcome
from rowlock._job import Status
from rowlock._store import Retention, Store
from rowlock.stores import connect
from rowlock.testing import FakeClock

from .given import (
    LEASE,
    ClaimOne,
    ClaimSome,
    Enqueue,
    Read,
    demand,
    new_job,
    retry,
)

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_law_4_claims_come_by_priority_then_run_at_then_id(
    store: Store, claim: ClaimSome, clock: FakeClock, order: tuple[int, ...]
) -> None:
    start = clock.now()
    # As they have to come, ties of the first two broken by the order of enqueueing.
    wanted = [(100, 2), (7, 0), (7, 5), (0, 0), (0, 5), (-1, 0), (-100, 0)]
    shuffled = [wanted[i] for offset in order for i in range(offset, len(wanted), 3)]
    ids: dict[int | None, tuple[int, int]] = {}
    tasks = ["bill", "mail"]
    for number, (priority, due) in enumerate(shuffled * 2):
        job = new_job(
            task=tasks[number % 2], priority=priority, run_at=start + due * SECOND
        )
        (job_id,) = await store.enqueue([job])
        ids[job_id] = (priority, due)
    clock.advance(10)

    one_by_one = [
        (await claim(1, tasks=tasks)).claims[0].job_id for _ in range(len(wanted))
    ]
    rest = [held.job_id for held in (await claim(100, tasks=tasks)).claims]

    came = one_by_one + rest
    assert [ids[job_id] for job_id in came] == [pair for pair in wanted for _ in "12"]
    pairs = zip(came[::2], came[1::2], strict=True)
    assert all(first < second for first, second in pairs)


async def test_law_4_a_retry_takes_its_place_by_its_new_run_at(
    enqueue: Enqueue,
    claim: ClaimSome,
    claim_one: ClaimOne,
    store: Store,
    clock: FakeClock,
) -> None:
    (first,) = await enqueue()
    held = await claim_one()
    clock.advance(1)
    (second,) = await enqueue()
    await store.finish([retry(held.key, delay=1)])
    clock.advance(5)
    (third,) = await enqueue()

    assert [held.job_id for held in (await claim()).claims] == [second, first, third]


async def test_a_job_is_claimed_from_the_instant_it_is_due(
    enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    (job_id,) = await enqueue(delay=SECOND)

    clock.advance(SECOND - timedelta(microseconds=1))
    assert (await claim()).claims == ()
    clock.advance(timedelta(microseconds=1))
    assert [held.job_id for held in (await claim()).claims] == [job_id]


async def test_future_jobs_of_the_best_priority_block_nothing(
    enqueue: Enqueue, claim: ClaimSome
) -> None:
    await enqueue(400, priority=100, delay=SECOND)
    ids = await enqueue(3, priority=-100)

    assert [held.job_id for held in (await claim(3)).claims] == ids


async def test_b08_no_job_is_claimed_before_it_is_due(
    enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    await enqueue(50, delay=timedelta(seconds=10))

    for second in range(10):
        assert (
            await claim(100, lease=2 * SECOND, worker=f"w{second % 4}")
        ).claims == ()
        clock.advance(1)

    assert len((await claim(100)).claims) == 50


async def test_next_due_is_the_next_job_that_fits(
    store: Store, claim: ClaimSome, clock: FakeClock
) -> None:
    now = clock.now()
    await store.enqueue(
        [
            new_job(task="unknown", delay=1 * SECOND),
            new_job(queue="other", delay=2 * SECOND),
            new_job(delay=30 * SECOND, priority=100),
            new_job(delay=20 * SECOND),
        ]
    )

    claimed = await claim(queues={"default": 5})

    assert claimed.claims == ()
    assert claimed.now == now
    assert claimed.next_due == now + 20 * SECOND
    assert (await claim()).next_due == now + 2 * SECOND


class PassingClock(FakeClock):
    """A clock on which a second passes whenever it is read."""

    def now(self) -> datetime:
        self.advance(1)
        return super().now()


async def test_what_becomes_due_in_the_middle_of_a_claim_is_told_of(
    database: str,
) -> None:
    clock = PassingClock()
    store = connect(database, clock=clock)
    await store.open()
    for n in range(40):
        task, run_at = f"task-{n}", clock.now() + n * SECOND / 2 + SECOND / 4
        await store.enqueue([new_job(task=task, run_at=run_at)])

        claimed = await store.claim(demand(1, task), worker="w1", lease=LEASE)

        assert claimed.claims or claimed.next_due == run_at
    await store.close()


async def test_next_due_is_none_where_nothing_is_planned(
    enqueue: Enqueue, claim: ClaimSome
) -> None:
    assert (await claim()).next_due is None
    await enqueue(2)
    claimed = await claim()
    assert len(claimed.claims) == 2
    assert claimed.next_due is None


async def test_next_due_does_not_count_what_will_have_expired(
    store: Store, claim: ClaimSome, clock: FakeClock
) -> None:
    now = clock.now()
    await store.enqueue([new_job(expires_at=now - SECOND), new_job(delay=60 * SECOND)])

    assert (await claim()).next_due == now + 60 * SECOND


async def test_an_expired_job_is_not_claimed(
    enqueue: Enqueue, claim: ClaimSome, clock: FakeClock, read: Read
) -> None:
    (job_id,) = await enqueue(expires_at=clock.now() + 60 * SECOND)
    clock.advance(61)

    assert (await claim()).claims == ()
    assert (await read(job_id)).claims == 0


async def test_hundreds_of_expired_jobs_at_the_head_block_nothing(
    enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    await enqueue(400, priority=100, expires_at=clock.now() + SECOND)
    clock.advance(2)
    ids = await enqueue(2)

    assert [held.job_id for held in (await claim(2)).claims] == ids


async def test_a_job_is_claimed_until_it_expires(
    enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    (job_id,) = await enqueue(expires_at=clock.now() + 60 * SECOND)
    clock.advance(59)

    assert [held.job_id for held in (await claim()).claims] == [job_id]


async def test_a_job_that_has_started_no_longer_expires(
    enqueue: Enqueue, claim_one: ClaimOne, store: Store, clock: FakeClock
) -> None:
    (job_id,) = await enqueue(expires_at=clock.now() + 60 * SECOND)
    held = await claim_one()
    await store.finish([retry(held.key)])
    clock.advance(3600)

    assert (await store.prune(Retention(), limit=10)).expired == 0
    assert (await claim_one()).job_id == job_id


async def test_a_job_given_back_unstarted_still_expires(
    enqueue: Enqueue,
    claim: ClaimSome,
    claim_one: ClaimOne,
    store: Store,
    clock: FakeClock,
) -> None:
    (job_id,) = await enqueue(expires_at=clock.now() + 60 * SECOND)
    held = await claim_one()
    await store.finish([_outcome.released(held.key, unstarted=True)])
    clock.advance(3600)

    assert (await claim()).claims == ()
    assert (await store.prune(Retention(), limit=10)).expired == 1
    (job,) = await store.get([job_id])
    assert job.status is Status.CANCELLED


@pytest.mark.parametrize(
    ("year", "is_due"), [(1, True), (1900, True), (1969, True), (9999, False)]
)
async def test_a_run_at_may_be_any_instant(
    store: Store, claim: ClaimSome, year: int, *, is_due: bool
) -> None:
    run_at = datetime(year, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    (job_id,) = await store.enqueue([new_job(run_at=run_at)])
    assert job_id is not None

    claimed = await claim()

    assert [job.run_at for job in await store.get([job_id])] == [run_at]
    assert [held.run_at for held in claimed.claims] == ([run_at] if is_due else [])
    assert claimed.next_due == (None if is_due else run_at)


async def test_what_one_claim_has_no_room_for_another_is_told_of(
    enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    await enqueue(2, queue="full")
    await enqueue(queue="full", delay=timedelta(seconds=5))
    await enqueue(queue="empty")
    await claim(2, queues={"full": 2})

    await claim(2, queues={"empty": 3, "full": 0})
    told = await claim(2)

    assert told.next_due is not None
    assert told.next_due <= clock.now() + timedelta(seconds=5)
