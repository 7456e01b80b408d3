"""How many jobs of a queue a worker runs at once, and who is kept waiting for that."""

from __future__ import annotations

import asyncio
from collections import Counter

from rowlock import App
from rowlock.events import Event, WorkerGivesWay
from rowlock.testing import FakeClock
from tests.endings import all_over, ended
from tests.eventually import eventually

from .yard import DUE_IN_S, SAFETY_S, Yard


async def test_no_more_jobs_of_a_queue_run_than_its_limit(app: App) -> None:
    running, most = Counter[str](), Counter[str]()

    @app.task
    async def work(queue: str) -> None:
        running[queue] += 1
        most[queue] = max(most[queue], running[queue])
        await asyncio.sleep(0)  # so that others may start
        running[queue] -= 1

    for queue in ("mail", "default"):
        await app.enqueue_many(
            work.options(queue=queue).job(queue=queue) for _ in range(200)
        )
    async with app.worker(concurrency=5, queues={"mail": 2, "default": None}):
        await all_over(app)

    assert most["mail"] == 2
    assert 3 <= most["default"] <= 5


async def test_a_queue_at_its_limit_keeps_nobody_else_waiting(
    app: App, yard: Yard
) -> None:
    await yard.enqueue("m1", "m2", "m3", queue="mail")
    async with app.worker(concurrency=3, queues={"mail": 1, "default": None}):
        await yard.has_started("m1")
        await yard.enqueue("d1", "d2", "d3")
        await yard.has_started("m1", "d1", "d2")
        await yard.nothing_starts()

        # The place of a job of the other queue is not for mail.
        yard.open("d1")
        await yard.has_started("m1", "d1", "d2", "d3")
        await yard.nothing_starts()
        yard.open("m1", "m2", "m3", "d2", "d3")


async def test_the_next_of_a_queue_starts_as_soon_as_one_has_ended(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    """The clock stands still: no safety interval brings it."""
    await yard.enqueue("m1", "m2", queue="mail")
    async with app.worker(queues={"mail": 1, "default": None}):
        await yard.has_started("m1")
        await yard.nothing_starts()
        before = clock.now()

        yard.open("m1")
        await yard.has_started("m1", "m2")
        assert clock.now() == before
        yard.open("m2")


async def test_one_that_ends_while_a_claim_is_under_way_keeps_no_place(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    """The claim asked for less than there is room for by the time it answers."""
    (first,) = await yard.enqueue("m1", queue="mail")
    async with app.worker(queues={"mail": 2, "default": None}):
        await yard.has_started("m1")
        before, claims = clock.now(), yard.claims
        yard.may_claim.clear()
        await yard.enqueue("m2", "m3", "m4", queue="mail")
        await eventually(lambda: yard.claims > claims)
        yard.open("m1")
        await ended(app, first)
        yard.may_claim.set()
        await yard.has_started("m1", "m2", "m3")

        yard.open("m2", "m3")
        await yard.has_started("m1", "m2", "m3", "m4")
        assert clock.now() == before
        yard.open("m4")


async def test_a_queue_at_its_limit_costs_no_claims_while_it_waits(
    app: App, yard: Yard
) -> None:
    """Its due jobs are nothing to wake up for."""
    await yard.enqueue("m1", "m2", "m3", queue="mail")
    async with app.worker(queues={"mail": 1, "default": None}):
        await yard.has_started("m1")
        await yard.nothing_starts()
        before = yard.claims
        await yard.nothing_starts()
        assert yard.claims == before
        yard.open("m1", "m2", "m3")


async def test_concurrency_is_what_the_limits_come_to(app: App, yard: Yard) -> None:
    await yard.enqueue("m1", "m2", "m3", queue="mail")
    await yard.enqueue("s1", "s2", queue="sms")
    async with app.worker(queues={"mail": 2, "sms": 1}):
        await yard.has_started_in_any_order("m1", "m2", "s1")
        await yard.nothing_starts()
        yard.open("m1", "m2", "m3", "s1", "s2")
        await all_over(app)


async def test_a_suspect_of_a_queue_with_a_limit_runs_alone(
    app: App, yard: Yard
) -> None:
    suspect = await yard.suspect("suspect", queue="mail", due_in=0)
    async with app.worker(concurrency=3, queues={"mail": 2}):
        await yard.has_started("suspect")
        await yard.enqueue("a", queue="mail")
        await yard.nothing_starts()
        yard.open("suspect", "a")
        await ended(app, suspect)
        await all_over(app)


async def test_law_19_a_suspect_behind_the_limit_of_its_queue_has_a_worker_give_way(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    """Its queue is at its limit at almost every claim, and the others never rest."""
    told: list[Event] = []
    app.listen(told.append)
    await yard.suspect("suspect", queue="mail")
    async with app.worker(concurrency=3, queues={"mail": 1, "default": None}):
        await yard.enqueue("m1", queue="mail")
        await yard.has_started("m1")
        await yard.enqueue("d1")
        await yard.has_started("m1", "d1")
        clock.advance(DUE_IN_S + SAFETY_S)
        await yard.enqueue("m2", queue="mail")
        # It looks for that one's sake; a job that came before the look would be taken.
        await eventually(lambda: any(isinstance(e, WorkerGivesWay) for e in told))
        await yard.enqueue("d2")
        yard.open("m1")
        await yard.nothing_starts()

        yard.open("d1")
        await yard.has_started("m1", "d1", "suspect")
        yard.open("suspect", "m2", "d2")
        await all_over(app)
