"""How often a worker looks for work: with wake-ups, and where none can come."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from rowlock.stores.postgres.polling import LATEST, SPREAD
from tests.cluster_fixtures import Pooler
from tests.endings import ended
from tests.leaping import CountedStore, LeapingLoop, counted_app, run

DAY_S = 86_400.0


async def settled(store: CountedStore) -> None:
    """Wait until a worker sleeps, and is told of news if it can be."""
    await asyncio.sleep(1)  # real: another thread connects, listens and tells
    store.calls.clear()
    store.called_at.clear()


def test_an_idle_worker_claims_at_most_2900_times_a_day(
    database_url: str, scale: int
) -> None:
    share = 1 if scale > 1 else 1 / 6

    async def idle(loop: LeapingLoop) -> None:
        app, store = counted_app(database_url, loop)
        app.task(name="mail")(lambda: None)
        async with app, app.worker():
            await settled(store)
            loop.leaps = True
            await asyncio.sleep(DAY_S * share)  # leapt over
            loop.leaps = False

        # So often that `safety_interval` is kept, and no more.
        assert 2870 * share <= store.calls["claim"] <= 2900 * share

    run(idle)


@pytest.mark.parametrize("interval", [2, 5])
def test_where_nobody_can_listen_polls_come_more_and_more_seldom(
    url: str, pooler: Pooler, interval: int
) -> None:
    async def poll(loop: LeapingLoop) -> None:
        app, store = counted_app(pooler(url), loop, poll_interval=interval)
        feeder, _ = counted_app(url, loop)
        mail = app.task(name="mail")(nothing)
        feeder.task(name="mail")(nothing)
        async with app, feeder, app.worker():
            await ended(app, await mail.enqueue())
            await settled(store)
            loop.leaps = True
            await asyncio.sleep(200)  # leapt over
            later = [min(interval * 2**n, LATEST) for n in range(1, 6)]
            assert_polls(store.called_at["claim"], later)

            # Each find lets it begin again.
            loop.leaps = False
            await feeder.tasks["mail"].enqueue()
            loop.leaps = True
            claims = store.called_at["claim"]
            seen = len(claims)
            # For the last pause, which may hold up the find, and those behind it.
            await asyncio.sleep(LATEST + 8 * interval)  # leapt over
            loop.leaps = False
            assert_polls(claims[seen:], [interval, *later[:2]])

    run(poll)


async def nothing() -> None:
    """Do nothing."""


def assert_polls(claims: Sequence[float], expected: Sequence[float]) -> None:
    """See that these were its first claims, after those that a find is owed."""
    pauses = [later - sooner for sooner, later in itertools.pairwise(claims)]

    # A claim that found something has another follow it, soon or as late as its cost
    # demands: on a machine that is busy, seconds later.
    assert any(are_polls(pauses[owed:], expected) for owed in range(3)), pauses


def are_polls(pauses: Sequence[float], expected: Sequence[float]) -> bool:
    return len(pauses) >= len(expected) and all(
        longest * (1 - SPREAD) - 0.1 <= pause <= longest + 0.1
        for pause, longest in zip(pauses, expected, strict=False)
    )


def test_a_deferred_job_waits_for_no_poll(url: str, pooler: Pooler) -> None:
    async def defer(loop: LeapingLoop) -> None:
        app, store = counted_app(pooler(url), loop)
        feeder, _ = counted_app(url, loop)
        app.task(name="mail")(nothing)
        feeder.task(name="mail")(nothing)
        async with app, feeder, app.worker():
            await settled(store)
            job = feeder.tasks["mail"].options(delay=70)
            job_id = await job.enqueue()
            loop.leaps = True
            done = await ended(feeder, job_id, within=200)
            loop.leaps = False

        assert done.started_at is not None
        assert (done.started_at - done.run_at).total_seconds() < 0.5

    run(defer)
