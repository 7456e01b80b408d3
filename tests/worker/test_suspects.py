"""When a worker runs a suspect, and what it does and doesn't do meanwhile."""

from __future__ import annotations

import asyncio

from rowlock import App, Status, _outcome
from rowlock._store import Demand, Pause
from rowlock.testing import FakeClock
from tests.endings import ended, finished, reached
from tests.eventually import eventually

from .yard import DUE_IN_S, LEASE, SAFETY_S, Yard


async def test_a_suspect_runs_alone(app: App, yard: Yard) -> None:
    suspect = await yard.suspect("suspect", due_in=0)
    async with app.worker(concurrency=3) as worker:
        await yard.has_started("suspect")
        others = await yard.enqueue("a", "b")
        await yard.nothing_starts()
        (held,) = await app._store.lost(9, worker=worker.id)
        assert held.alone

        yard.open("suspect", "a", "b")
        jobs = await finished(app, [suspect, *others])

    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert [job.attempts for job in jobs] == [2, 1, 1]


async def test_a_suspect_starts_when_what_runs_beside_has_ended(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    """A worker with room still takes others, for the safety interval."""
    suspect = await yard.suspect("suspect")
    async with app.worker(concurrency=3):
        await yard.enqueue("long")
        await yard.has_started("long")
        clock.advance(DUE_IN_S)
        (other,) = await yard.enqueue("other")
        await yard.has_started("long", "other")
        yard.open("other")
        await ended(app, other)
        await yard.nothing_starts()

        yard.open("long")

        await yard.has_started("long", "other", "suspect")
        yard.open("suspect")
        assert (await ended(app, suspect)).status is Status.SUCCEEDED


async def test_law_19_a_busy_worker_gives_way_after_the_safety_interval(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    await yard.suspect("suspect")
    async with app.worker(concurrency=3):
        await yard.enqueue("long")
        await yard.has_started("long")
        clock.advance(DUE_IN_S)
        clock.advance(SAFETY_S - 1)
        await yard.enqueue("before")
        await yard.has_started("long", "before")
        clock.advance(1)
        await yard.nothing_starts()
        await yard.enqueue("after")
        yard.open("before")
        await yard.nothing_starts()

        yard.open("long")
        await yard.has_started("long", "before", "suspect")
        await yard.nothing_starts()
        yard.open("suspect")
        await yard.has_started("long", "before", "suspect", "after")
        yard.open("after")


async def test_law_19_a_worker_that_was_full_takes_no_other_before_it_gives_way(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    await yard.suspect("suspect")
    async with app.worker(concurrency=2):
        await yard.enqueue("long", "longer")
        await yard.has_started("long", "longer")
        await yard.enqueue("other")
        clock.advance(DUE_IN_S + SAFETY_S)
        yard.open("long")
        await yard.nothing_starts()

        yard.open("longer")
        await yard.has_started("long", "longer", "suspect")
        yard.open("suspect", "other")


async def test_of_two_suspects_the_second_lets_others_go_before(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    await yard.suspect("first")
    await yard.suspect("second")
    async with app.worker(concurrency=2):
        await yard.enqueue("long")
        await yard.has_started("long")
        clock.advance(DUE_IN_S)
        clock.advance(SAFETY_S)
        await yard.nothing_starts()
        await yard.enqueue("a", "b", "c")
        yard.open("long")
        await yard.has_started("long", "first")

        clock.advance(SAFETY_S)
        yard.open("first")
        await yard.has_started("long", "first", "a", "b")
        yard.open("a")
        await yard.has_started("long", "first", "a", "b", "c")
        clock.advance(SAFETY_S)
        await yard.enqueue("d")
        yard.open("c")
        await yard.nothing_starts()
        yard.open("b")
        await yard.has_started("long", "first", "a", "b", "c", "second")
        yard.open("second", "d")


async def test_law_11_nobody_gives_way_for_a_suspect_of_a_paused_queue(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    await yard.suspect("suspect", queue="halted", due_in=0)
    await app._store.pause(Pause(queue="halted"))
    async with app.worker(concurrency=2):
        await yard.enqueue("long")
        await yard.has_started("long")
        clock.advance(2 * SAFETY_S)

        await yard.enqueue("other")
        await yard.has_started("long", "other")
        yard.open("long", "other")
        await yard.nothing_starts()

        await app._store.pause(Pause(queue="halted"), resume=True)
        await yard.has_started("long", "other", "suspect")
        yard.open("suspect")


async def test_law_16_nobody_gives_way_for_a_suspect_without_a_handler(
    app: App, yard: Yard, clock: FakeClock, database_url: str
) -> None:
    async with App(database_url, clock=clock) as elsewhere:

        @elsewhere.task
        async def unknown_here() -> None: ...

        job_id = await unknown_here.enqueue()
        demand = Demand(total=1, tasks=frozenset({"unknown_here"}))
        claimed = await app._store.claim(demand, worker="w-dead", lease=LEASE)
        await app._store.finish([_outcome.lost(claimed.claims[0])])

        async with app.worker(concurrency=2):
            await yard.enqueue("long")
            await yard.has_started("long")
            clock.advance(2 * SAFETY_S)
            await yard.enqueue("other")
            await yard.has_started("long", "other")
            yard.open("long", "other")
            async with elsewhere.worker():
                job = await ended(elsewhere, job_id)

    assert (job.status, job.losses) == (Status.SUCCEEDED, 1)


async def test_of_two_workers_one_gives_way(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    await yard.suspect("suspect")
    async with app.worker(concurrency=2) as older:
        await yard.enqueue("long of the older")
        await yard.has_started("long of the older")
        clock.advance(1)
        async with app.worker(concurrency=2) as newer:
            await yard.enqueue("a", "b")
            await eventually(lambda: len(yard.started) == 3)
            await yard.enqueue("c")
            await eventually(lambda: len(yard.started) == 4)
            clock.advance(DUE_IN_S)
            clock.advance(SAFETY_S)
            await yard.nothing_starts()
            yard.open("a", "b", "c")
            # The newer one is empty now, and has it; the older one goes on.
            await eventually(lambda: yard.started[-1] == "suspect")
            (other,) = await yard.enqueue("other")
            await eventually(lambda: yard.started[-1] == "other")
            held = {
                each.job_id: each.alone
                for each in await app._store.lost(9, worker=older.id)
            }
            assert held[other] is False
            (alone,) = await app._store.lost(9, worker=newer.id)
            assert alone.alone
            yard.open("suspect", "other", "long of the older")


async def test_who_gives_way_goes_on_when_another_worker_has_taken_it(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    suspect = await yard.suspect("suspect")
    async with app.worker(concurrency=2):
        await yard.enqueue("long")
        await yard.has_started("long")
        clock.advance(DUE_IN_S)
        clock.advance(SAFETY_S)
        await yard.nothing_starts()
        (other,) = await yard.enqueue("other")
        await yard.nothing_starts()

        demand = Demand(total=1, tasks=frozenset({"visit"}), suspects=True)
        claimed = await app._store.claim(
            demand, worker="w-another", lease=LEASE, alone=True
        )
        await app._store.finish([_outcome.succeeded(claimed.claims[0].key)])
        # Nothing tells of a claim; any news, or the safety interval, has it look.
        clock.advance(1)

        await yard.has_started("long", "other")
        yard.open("long", "other")
        assert (await ended(app, other)).status is Status.SUCCEEDED
        assert (await ended(app, suspect)).attempts == 2


async def test_a_worker_of_one_takes_suspects_and_others_in_turn(
    app: App, yard: Yard
) -> None:
    await yard.suspect("first", due_in=0)
    await yard.suspect("second", due_in=0)
    await yard.enqueue("a", "b", "c")
    yard.open("a", "b", "c", "first", "second")
    async with app.worker(concurrency=1):
        await eventually(lambda: len(yard.started) == 5)

    assert yard.started == ["a", "first", "b", "second", "c"]


async def test_a_waiting_suspect_keeps_no_worker_awake(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    await yard.suspect("suspect")
    async with app.worker(concurrency=3):
        await yard.enqueue("long")
        await yard.has_started("long")
        clock.advance(DUE_IN_S)
        await yard.nothing_starts()
        before = yard.claims
        await asyncio.sleep(0.5)  # in which it might claim a thousand times
        assert yard.claims <= before + 1
        clock.advance(SAFETY_S)
        await yard.nothing_starts()
        before = yard.claims
        await asyncio.sleep(0.5)  # the same while it gives way
        assert yard.claims <= before + 1
        yard.open("long", "suspect")
        await eventually(lambda: yard.started == ["long", "suspect"])


async def test_an_attempt_that_ends_clears_it(app: App, yard: Yard) -> None:
    """What fails by itself did not kill its worker."""

    @app.task(backoff=0)
    async def fail() -> None:
        yard.started.append("fail")
        raise ValueError

    job_id = await fail.enqueue()
    demand = Demand(total=1, tasks=frozenset({"fail"}))
    claimed = await app._store.claim(demand, worker="w-dead", lease=LEASE)
    await app._store.finish([_outcome.lost(claimed.claims[0])])
    async with app.worker(concurrency=3):
        job = await reached(app, job_id, Status.FAILED)

    assert (job.failures, job.losses, job.attempts) == (3, 1, 4)
