"""What was enqueued is asserted, and a failure says what there is instead."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from rowlock import App, Status, UsageError
from rowlock.testing import (
    FakeClock,
    assert_enqueued,
    assert_enqueued_sync,
    drain,
    refute_enqueued,
    refute_enqueued_sync,
)

WHEN = datetime(2026, 5, 1, tzinfo=UTC)


@dataclass
class Address:
    city: str
    lines: dict[str, str]


async def message_of(app: App, task: str, **expected: object) -> str:
    with pytest.raises(AssertionError) as raised:
        await assert_enqueued(app, task, **expected)  # type: ignore[arg-type]
    return str(raised.value)


async def test_arguments_are_a_subset_as_the_handler_gets_them(app: App) -> None:
    @app.task
    async def ship(
        order: UUID, when: datetime, to: Address, extra: dict[str, dict[str, int]]
    ) -> None: ...

    order, to = UUID(int=7), Address("Ulm", {"street": "A 1"})
    await ship.enqueue(order, WHEN, to, extra={"a": {"x": 1, "y": 2}})

    right: list[dict[str, object]] = [
        {},
        {"order": order, "when": WHEN},
        {"to": to},
        {"extra": {"a": {"x": 1}}},
        {"order": str(order), "to": {"city": "Ulm"}},  # as JSON
    ]
    for args in right:
        assert len(await assert_enqueued(app, ship, args=args)) == 1
    wrong: list[dict[str, object]] = [
        {"order": UUID(int=8)},
        {"extra": {"a": {"z": 1}}},
        {"unknown": None},
    ]
    for args in wrong:
        await refute_enqueued(app, ship, args=args)


async def test_everything_that_may_be_said_counts(app: App, clock: FakeClock) -> None:
    @app.task(queue="mail", priority=3)
    async def ship(n: int) -> None: ...

    await ship.options(delay=60, idempotency_key="k").enqueue(1)

    await assert_enqueued(
        app,
        "ship",
        args={"n": 1},
        count=1,
        queue="mail",
        status="pending",
        priority=3,
        delay=timedelta(minutes=1),
        run_at=clock.now() + timedelta(minutes=1),
        idempotency_key="k",
    )
    await refute_enqueued(app, ship, queue="other")
    await refute_enqueued(app, ship, status=Status.FAILED)
    await refute_enqueued(app, ship, priority=0)
    await refute_enqueued(app, ship, delay=61)
    await refute_enqueued(app, ship, run_at=clock.now())
    await refute_enqueued(app, ship, idempotency_key="other")
    with pytest.raises(UsageError, match="'colour'"):
        await assert_enqueued(app, ship, colour="red")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="count="):
        await assert_enqueued(app, ship, count=-1)
    with pytest.raises(UsageError, match="args="):
        await assert_enqueued(app, ship, args=[1])  # type: ignore[arg-type]


async def test_a_job_counts_whatever_became_of_it(app: App) -> None:
    @app.task
    async def ship(n: int) -> None: ...

    await ship.enqueue(1)
    await drain(app)
    await ship.enqueue(2)

    found = await assert_enqueued(app, ship, count=2)
    assert [job.status for job in found] == [Status.SUCCEEDED, Status.PENDING]
    await assert_enqueued(app, ship, count=1, status="pending")
    await assert_enqueued(app, ship, count=0, args={"n": 3})


async def test_a_failure_shows_what_was_enqueued_and_the_nearest(app: App) -> None:
    @app.task
    async def ship(order_id: int, how: str) -> None: ...

    @app.task
    async def mail(to: str) -> None: ...

    await mail.enqueue("Ada")
    await ship.enqueue(42, "by sea")
    await ship.options(queue="slow").enqueue(43, "by air")
    ids = [job.id for job in reversed((await app.list()).jobs)]

    args = {"order_id": 43, "how": "by sea"}
    assert await message_of(app, "ship", args=args, queue="slow") == (
        "No job of 'ship' with args {'order_id': 43, 'how': 'by sea'}, queue 'slow' was"
        " enqueued.\n"
        "Enqueued were:\n"
        f"  {ids[0]}  mail  {{'to': 'Ada'}}  queue default, pending,"
        " due 2026-01-01T00:00:00.000000Z\n"
        f"  {ids[1]}  ship  {{'order_id': 42, 'how': 'by sea'}}  queue default,"
        " pending, due 2026-01-01T00:00:00.000000Z\n"
        f"  {ids[2]}  ship  {{'order_id': 43, 'how': 'by air'}}  queue slow, pending,"
        " due 2026-01-01T00:00:00.000000Z\n"
        f"The nearest is job {ids[2]}: its how is 'by air', not 'by sea'."
    )
    many = await message_of(app, "ship", count=3)
    assert many.startswith("2 jobs of 'ship' were enqueued, not 3.\nEnqueued were:\n")
    assert "nearest" not in many
    unknown = await message_of(app, "shipp")
    assert "its task is" in unknown
    assert unknown.endswith("This app has no task 'shipp'.")


async def test_a_failure_of_refute_names_the_jobs(app: App) -> None:
    @app.task
    async def ship(n: int) -> None: ...

    job_id = await ship.enqueue(1)

    with pytest.raises(AssertionError) as raised:
        await refute_enqueued(app, ship, args={"n": 1})

    assert str(raised.value) == (
        "1 job of 'ship' with args {'n': 1} was enqueued:\n"
        f"  {job_id}  ship  {{'n': 1}}  queue default, pending,"
        " due 2026-01-01T00:00:00.000000Z"
    )


async def test_many_jobs_are_cut_and_all_of_them_are_looked_at(app: App) -> None:
    @app.task
    async def ship(n: int) -> None: ...

    await app.enqueue_many([ship.job(n) for n in range(600)])

    await assert_enqueued(app, ship, count=600)
    await assert_enqueued(app, ship, args={"n": 0}, count=1)
    message = await message_of(app, "ship", args={"n": 600})
    assert "  ... 590 more before\n" in message
    assert len(message.splitlines()) == 14


async def test_what_comes_later_is_waited_for(app: App) -> None:
    @app.task
    async def ship(n: int) -> None: ...

    async def later(n: int) -> None:
        await asyncio.sleep(0.05)  # real: what is waited for comes from elsewhere
        await ship.enqueue(n)

    coming = asyncio.create_task(later(1))
    await assert_enqueued(app, ship, within=10)
    await coming

    coming = asyncio.create_task(later(2))
    with pytest.raises(AssertionError):
        await refute_enqueued(app, ship, args={"n": 2}, within=timedelta(seconds=10))
    await coming
    await refute_enqueued(app, ship, args={"n": 3}, within=0.05)


def test_synchronous_code_asserts_too(database_url: str) -> None:
    app = App(database_url)

    @app.task
    def ship(n: int) -> None: ...

    refute_enqueued_sync(app, ship)
    ship.enqueue_sync(1)
    assert assert_enqueued_sync(app, ship, args={"n": 1}, count=1)[0].task == "ship"
    with pytest.raises(AssertionError):
        refute_enqueued_sync(app, ship)
    app.close_sync()


def test_a_plain_test_that_awaits_nothing_does_not_pass(database_url: str) -> None:
    app = App(database_url)

    with pytest.raises(UsageError, match=r"write assert_enqueued_sync\(\.\.\.\)"):
        assert_enqueued(app, "ship")  # type: ignore[unused-coroutine]
    with pytest.raises(UsageError, match=r"write refute_enqueued_sync\(\.\.\.\)"):
        refute_enqueued(app, "ship")  # type: ignore[unused-coroutine]
