"""
Wake-ups: news reaches the sleeper, of this process and of others.

They may be lost (law 19: a sleeper looks again after its timeout) or come for
nothing; what is tested is that they come where nothing is in their way, and that a
sleeper is never late.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from rowlock._store import Store, Wakeups
from rowlock.testing import FakeClock

from .given import ClaimOne, ClaimSome, Enqueue, OpenAnother, new_job, retry

HOUR = timedelta(hours=1)


async def asleep(wakeups: Wakeups) -> asyncio.Task[bool]:
    """Start to wait for an hour, once what happened before is old news."""
    while True:
        sleeper = asyncio.create_task(wakeups.wait(HOUR))
        # Real: a look at what other processes wrote takes up to a quarter of a second.
        await asyncio.sleep(0.1)
        if not sleeper.done():
            return sleeper


async def woken(sleeper: asyncio.Task[bool]) -> bool:
    # Real: a hint takes a millisecond, the look behind it a quarter of a second.
    return await asyncio.wait_for(sleeper, timeout=2)


async def test_an_enqueue_wakes_the_sleeper(store: Store, enqueue: Enqueue) -> None:
    wakeups = store.wakeups()
    sleeper = await asleep(wakeups)

    await enqueue()

    assert await woken(sleeper)
    wakeups.close()


async def test_every_sleeper_is_woken(store: Store, enqueue: Enqueue) -> None:
    subscriptions = [store.wakeups() for _ in range(3)]
    sleepers = [await asleep(wakeups) for wakeups in subscriptions]

    await enqueue()

    assert all([await woken(sleeper) for sleeper in sleepers])
    for wakeups in subscriptions:
        wakeups.close()


async def test_news_since_the_last_call_counts(store: Store, enqueue: Enqueue) -> None:
    wakeups = store.wakeups()
    while await wakeups.wait(timedelta(0)):
        pass

    await enqueue()

    assert await asyncio.wait_for(wakeups.wait(HOUR), timeout=2)
    wakeups.close()


async def test_a_retry_and_a_replay_are_news(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    wakeups = store.wakeups()
    (job_id,) = await enqueue()
    held = await claim_one()

    sleeper = await asleep(wakeups)
    await store.finish([retry(held.key)])
    assert await woken(sleeper)

    await store.cancel([job_id], by="test")
    sleeper = await asleep(wakeups)
    await store.replay([job_id], by="test")
    assert await woken(sleeper)
    wakeups.close()


async def test_a_deferred_job_is_news_too(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    wakeups = store.wakeups()
    sleeper = await asleep(wakeups)

    # The sleeper may plan to sleep for longer than until it is due.
    await enqueue(delay=timedelta(seconds=30))

    assert await woken(sleeper)
    assert (await claim()).next_due is not None
    wakeups.close()


async def test_a_job_of_another_process_wakes_the_sleeper(
    store: Store, open_another: OpenAnother
) -> None:
    another = await open_another()
    wakeups = store.wakeups()
    sleeper = await asleep(wakeups)

    await another.enqueue([new_job()])

    assert await woken(sleeper)
    wakeups.close()


async def test_a_sleeper_wakes_by_itself_when_its_time_has_come(store: Store) -> None:
    wakeups = store.wakeups()
    sleeper = asyncio.create_task(wakeups.wait(timedelta(milliseconds=50)))

    await woken(sleeper)
    wakeups.close()


async def test_a_sleeper_wakes_where_a_test_moves_the_clock(
    store: Store, clock: FakeClock
) -> None:
    wakeups = store.wakeups()
    sleeper = await asleep(wakeups)

    clock.advance(HOUR)

    await woken(sleeper)
    wakeups.close()


async def test_a_sleeper_that_does_not_want_to_wait_does_not(store: Store) -> None:
    wakeups = store.wakeups()

    for _ in range(10):
        await asyncio.wait_for(wakeups.wait(timedelta(0)), timeout=1)
    wakeups.close()


async def test_a_cancelled_sleeper_leaves_the_others_be(
    store: Store, enqueue: Enqueue
) -> None:
    wakeups, others = store.wakeups(), store.wakeups()
    first, second = await asleep(wakeups), await asleep(others)

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await enqueue()

    assert await woken(second)
    # The subscription of the cancelled one still hears.
    assert await asyncio.wait_for(wakeups.wait(HOUR), timeout=2)
    wakeups.close()
    others.close()


async def test_a_closed_subscription_is_in_nobodys_way(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    wakeups = store.wakeups()
    wakeups.close()
    wakeups.close()

    (job_id,) = await enqueue()

    assert (await claim_one()).job_id == job_id
