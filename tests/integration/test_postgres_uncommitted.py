"""A handler that returned, and whose transaction stays open: what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection

from rowlock import App, Status, current_attempt
from rowlock._events import Event
from rowlock._worker import completed
from rowlock.events import AttemptUncommitted, OutcomeDropped
from tests.endings import known, reached
from tests.eventually import eventually

from .postgres_given import Own


@pytest.fixture
async def shop(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    """An app whose leases are short, and that soon tells what stays open."""
    monkeypatch.setattr(completed, "UNCOMMITTED_AFTER_S", 1.0)
    async with App(url, lease=1) as app:
        yield app


def of(told: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in told if isinstance(event, kind)]


@pytest.mark.parametrize("call", ["complete", "hold"])
async def test_it_is_told_once_and_what_then_is_committed_counts(
    shop: App, url: str, call: str
) -> None:
    left: list[Own] = []
    told: list[Event] = []
    shop.listen(told.append)

    @shop.task
    async def order() -> None:
        own: Own = await AsyncConnection.connect(url)
        attempt = current_attempt()
        await getattr(attempt, call)(connection=own)
        left.append(own)

    async with shop.worker():
        job_id = known(await order.enqueue())
        await eventually(lambda: bool(of(told, AttemptUncommitted)))
        await asyncio.sleep(1.5)  # in which it would be told again
        why = await shop.why(job_id)
        await left[0].commit()
        await reached(shop, job_id, Status.SUCCEEDED)
        await left[0].close()

    (event,) = of(told, AttemptUncommitted)
    assert isinstance(event, AttemptUncommitted)
    assert (event.job_id, event.task, event.attempt) == (job_id, "order", 1)
    assert 1 <= event.open_s < 10
    assert event.reason == (
        f"the handler has ended, and the transaction in which it had called {call}() is"
        " still open, and nobody else can end, cancel or recover the job: commit before"
        " the handler returns; pg_stat_activity shows the session"
    )
    assert why.reason == "held"
    assert not of(told, OutcomeDropped)


async def test_a_worker_that_ends_meanwhile_says_why_it_drops_the_outcome(
    shop: App, url: str
) -> None:
    left: list[Own] = []
    told: list[Event] = []
    shop.listen(told.append)

    @shop.task
    async def order() -> None:
        own: Own = await AsyncConnection.connect(url)
        await current_attempt().complete(connection=own)
        left.append(own)

    async with shop.worker(shutdown_timeout=1):
        job_id = known(await order.enqueue())
        await eventually(lambda: bool(left))
    await left[0].rollback()
    await left[0].close()

    (event,) = of(told, OutcomeDropped)
    assert isinstance(event, OutcomeDropped)
    assert (event.job_id, event.task, event.claim) == (job_id, "order", 1)
    assert event.reason == (
        "the handler has ended, and the transaction in which it had called complete()"
        " is still open"
    )


async def test_one_that_is_committed_soon_is_not_told(shop: App, url: str) -> None:
    told: list[Event] = []
    shop.listen(told.append)

    @shop.task
    async def order() -> None:
        own: Own = await AsyncConnection.connect(url)
        await current_attempt().complete(connection=own)
        late.append(asyncio.create_task(commit(own)))

    async def commit(own: Own) -> None:
        await asyncio.sleep(0.4)  # a middleware that takes its time
        await own.commit()
        await own.close()

    late: list[asyncio.Task[None]] = []
    async with shop.worker():
        await reached(shop, await order.enqueue(), Status.SUCCEEDED)
        await asyncio.gather(*late)

    assert not of(told, AttemptUncommitted)
