"""Why a job waits while real workers are at work, and that what is said comes."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from rowlock import App, Status
from rowlock._errors import StoreUnavailable
from rowlock._figures import Place
from rowlock._store import TaskInfo, WorkerInfo
from rowlock.events import Event, WorkerGivesWay
from rowlock.testing import FakeClock
from tests.endings import ended
from tests.eventually import eventually

from .yard import DUE_IN_S, SAFETY_S, Yard


async def said(app: App, job_id: int, reason: str) -> str:
    """Wait until that is the reason; what is said of it, after the job."""

    async def it_is() -> bool:
        return (await app.why(job_id)).reason == reason

    await eventually(it_is, what=f"job {job_id} is {reason}")
    return (await app.why(job_id)).sentence.split(" ", 2)[2]


async def live(app: App, worker: str) -> WorkerInfo:
    """Give a worker as operators see it."""
    seen = await app._store.figures.overview()
    (found,) = [each for each in seen.workers if each.id == worker]
    return found


async def test_a_worker_with_room_runs_a_suspect_alone(app: App, yard: Yard) -> None:
    await yard.suspect("suspect", due_in=0)
    async with app.worker(concurrency=3) as worker:
        await yard.has_started("suspect")
        (first, second) = await yard.enqueue("first", "second")

        assert await said(app, first, "alone") == (
            "has been due for 0 ms, and is the next, but the one worker that could run"
            " it runs a suspect alone, and claims nothing until that has ended."
        )
        assert (await said(app, second, "alone")).startswith(
            "has been due for 0 ms, behind 1 job, but the one worker"
        )
        assert (await live(app, worker.id)).alone
        await yard.nothing_starts()

        yard.open("suspect")
        await yard.has_started("suspect", "first", "second")
        assert not (await live(app, worker.id)).alone
        yard.open("first", "second")


async def test_a_worker_with_room_gives_way_to_a_suspect(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    told: list[Event] = []
    app.listen(told.append)
    suspect = await yard.suspect("suspect")
    async with app.worker(concurrency=3) as worker:
        await yard.enqueue("long", "longer")
        await yard.has_started("long", "longer")
        clock.advance(DUE_IN_S + SAFETY_S)
        await eventually(lambda: any(isinstance(e, WorkerGivesWay) for e in told))
        (other,) = await yard.enqueue("other")

        assert await said(app, other, "gives_way") == (
            "has been due for 0 ms, and is the next, but the one worker that could run"
            " it gives way to a suspect, which is to start before anything else."
        )
        assert (await app.why(suspect)).reason == "suspect"
        assert (await live(app, worker.id)).gives_way
        yard.open("longer")
        await yard.nothing_starts()

        yard.open("long")
        await yard.has_started("long", "longer", "suspect")
        assert (await said(app, other, "alone")).startswith("has been due for")
        yard.open("suspect")
        await yard.has_started("long", "longer", "suspect", "other")
        assert not (await live(app, worker.id)).gives_way
        yard.open("other")

    (began,) = [event for event in told if isinstance(event, WorkerGivesWay)]
    assert (began.worker, began.running) == (worker.id, 2)
    assert began.suspect_since == (await app.get(suspect)).run_at


async def test_a_worker_that_could_not_say_that_it_gives_way_says_it_at_its_next_look(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    register = app._store.register
    failed: list[WorkerInfo] = []

    async def once_away(
        worker: WorkerInfo | None, tasks: Collection[TaskInfo], **how: bool
    ) -> None:
        if worker is not None and worker.gives_way and not failed:
            failed.append(worker)
            msg = "away"
            raise StoreUnavailable(msg)
        await register(worker, [*tasks], **how)

    app._store.register = once_away  # type: ignore[method-assign]  # it fails once
    await yard.suspect("suspect")
    async with app.worker(concurrency=3):
        await yard.enqueue("long")
        await yard.has_started("long")
        clock.advance(DUE_IN_S + SAFETY_S)
        await eventually(lambda: failed != [])
        (other,) = await yard.enqueue("other")

        await said(app, other, "gives_way")
        yard.open("long", "suspect", "other")
        await yard.has_started("long", "suspect", "other")


async def test_the_workers_are_full_and_then_it_is_its_turn(
    app: App, yard: Yard
) -> None:
    async with app.worker(concurrency=1) as worker:
        await yard.enqueue("long")
        await yard.has_started("long")
        (first, second) = await yard.enqueue("first", "second")

        assert await said(app, first, "busy") == (
            "has been due for 0 ms, and is the next, but the one worker that could run"
            " it is full (1 of 1 run)."
        )
        assert (await said(app, second, "behind")).startswith(
            "has been due for 0 ms, behind 1 job of its queue"
        )
        # Alone as every job of such a worker, which is nothing to wait for.
        assert (await live(app, worker.id)).alone

        yard.open("long")
        await yard.has_started("long", "first")
        yard.open("first")
        await yard.has_started("long", "first", "second")
        yard.open("second")


async def test_a_worker_has_room_and_is_about_to_claim_it(app: App, yard: Yard) -> None:
    async with app.worker(concurrency=2):
        await yard.enqueue("long")
        await yard.has_started("long")
        await yard.nothing_starts()
        yard.may_claim.clear()
        (job_id,) = await yard.enqueue("job")

        assert (await said(app, job_id, "due")).startswith(
            "has been due for 0 ms and the next, and a worker has room for it"
        )

        yard.may_claim.set()
        await yard.has_started("long", "job")
        assert (await app.why(job_id)).reason == "running"
        yard.open("long", "job")


async def test_none_of_several_workers_claims_anything(
    app: App, yard: Yard, clock: FakeClock
) -> None:
    async with app.worker(concurrency=1):
        await yard.enqueue("long")
        await yard.has_started("long")
        clock.advance(1)
        await yard.suspect("suspect", due_in=0)
        async with app.worker(concurrency=3):
            await yard.has_started("long", "suspect")
            (other,) = await yard.enqueue("other")

            assert await said(app, other, "alone") == (
                "has been due for 0 ms, and is the next, but none of the 2 workers that"
                " could run it claims anything: 1 runs a suspect alone, 1 is full."
            )

            yard.open("suspect")
            await yard.has_started("long", "suspect", "other")
            yard.open("long", "other")


@pytest.fixture
def passing(app: App, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to a job after it was read, one a look."""
    figures, todo = app._store.figures, list[str]()
    place = figures.place

    async def late(job_id: int, *, queue: str, tasks: Collection[str]) -> Place | None:
        happens = todo.pop(0) if todo else "nothing"
        if happens == "cancel":
            await app.cancel(job_id)
        elif happens != "nothing":
            await app.move(job_id, queue=happens)
        return await place(job_id, queue=queue, tasks=tasks)

    monkeypatch.setattr(figures, "place", late)
    return todo


async def test_a_job_that_ends_while_it_is_looked_at_has_ended(
    app: App, yard: Yard, passing: list[str]
) -> None:
    (job_id,) = await yard.enqueue("job")
    passing.append("cancel")

    assert (await app.why(job_id)).reason == "cancelled"
    assert (await app.get(job_id)).status is Status.CANCELLED


async def test_a_job_that_is_moved_while_it_is_looked_at_is_looked_at_again(
    app: App, yard: Yard, passing: list[str]
) -> None:
    async with app.worker(queues=["slow"]):
        (job_id,) = await yard.enqueue("job")
        passing.append("fast")

        why = await app.why(job_id)

        assert why.reason == "unserved"
        assert "'fast'" in why.sentence


async def test_a_job_that_changes_at_each_look_is_not_said_to_be_anything_else(
    app: App, yard: Yard, passing: list[str]
) -> None:
    async with app.worker(queues=["a", "b", "c", "default"]):
        await yard.nothing_starts()
        yard.may_claim.clear()
        (job_id,) = await yard.enqueue("job")
        passing.extend("abc")

        why = await app.why(job_id)

        assert (why.reason, passing) == ("due", [])
        assert why.sentence.endswith("and changes all the while: ask again.")
        yard.may_claim.set()
        yard.open("job")
        assert (await ended(app, job_id)).status is Status.SUCCEEDED
