"""Attempts that hold and complete on Postgres, as their worker sees them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, IsolationLevel
from psycopg.errors import SerializationFailure

from rowlock import App, Status, StoreUnavailable, Task, UsageError, current_attempt
from rowlock._events import Event
from rowlock._job import ClaimKey
from rowlock._store import Renewal
from rowlock.events import (
    AttemptRaisedLate,
    AttemptSucceeded,
    ClaimRefused,
    JobEnqueued,
)
from tests.endings import ended, known, reached
from tests.eventually import eventually

from .postgres_given import LEVELS, Own, connected


@pytest.fixture
async def shop(url: str) -> AsyncIterator[App]:
    """An app whose leases are short, on a database with a table of its own."""
    async with connected(url) as own:
        await own.execute("CREATE TABLE paid (n integer)")
        await own.commit()
    async with App(url, lease=1) as app:
        yield app


async def paid(url: str) -> int:
    async with connected(url) as own:
        found = await (await own.execute("SELECT count(*) FROM paid")).fetchone()
    assert found is not None
    return int(found[0])


def successes(told: list[Event]) -> list[int]:
    return [event.job_id for event in told if isinstance(event, AttemptSucceeded)]


async def delay_of(shop: App, tick: Task[[], Any]) -> timedelta:
    """Run a job while a tenth of a second goes by; how long it took."""
    job_id = await tick.enqueue()
    await asyncio.sleep(0.1)  # a middleware that takes its time
    found = await reached(shop, job_id, Status.SUCCEEDED)
    assert found.finished_at is not None
    return found.finished_at - found.created_at


@LEVELS
async def test_a_session_that_is_closed_after_the_handler_returned_is_waited_for(
    shop: App, url: str, level: IsolationLevel
) -> None:
    """As by a middleware, which commits when the handler is through."""
    sessions: list[Own] = []
    told: list[Event] = []
    shop.listen(told.append)

    @shop.task
    async def order() -> None:
        own: Own = await AsyncConnection.connect(url)
        await own.set_isolation_level(level)
        await own.execute("INSERT INTO paid VALUES (1)")
        await current_attempt().complete(connection=own)
        sessions.append(own)

    @shop.task
    async def tick() -> None: ...

    async with shop.worker(concurrency=1):
        job_id = known(await order.enqueue())
        await eventually(lambda: bool(sessions))
        # For two leases, in which others have the place of the one that returned.
        delays = [await delay_of(shop, tick) for _ in range(20)]
        waiting = await shop.get(job_id)
        await sessions[0].commit()
        await sessions[0].close()
        found = await reached(shop, job_id, Status.SUCCEEDED, within=5)
        # It is asked for twice a second.
        await eventually(lambda: job_id in successes(told))

    assert waiting.status is Status.RUNNING
    assert (found.attempts, found.losses, found.failures) == (1, 0, 0)
    assert max(delays) < timedelta(seconds=1), delays
    assert await paid(url) == 1


@LEVELS
async def test_rolled_back_and_returned_or_committed_and_raised(
    shop: App, url: str, level: IsolationLevel
) -> None:
    told: list[Event] = []
    shop.listen(told.append)

    @shop.task(backoff=0)
    async def order() -> None:
        attempt = current_attempt()
        async with connected(url, level) as own:
            await attempt.hold(connection=own)
            await own.execute("INSERT INTO paid VALUES (1)")
            await attempt.complete(connection=own)
            if attempt.number == 1:
                await own.rollback()
                return
            await own.commit()
        msg = "the printer is out of paper"
        raise OSError(msg)

    async with shop.worker():
        found = await reached(shop, await order.enqueue(), Status.SUCCEEDED)
        await eventually(lambda: AttemptRaisedLate in map(type, told))

    assert (found.attempts, found.failures, found.losses) == (2, 1, 0)
    assert found.last_error is not None
    assert found.last_error.startswith("CompletionRolledBack")
    assert await paid(url) == 1


async def test_a_checkpoint_beside_a_hold_is_refused_and_after_it_is_written(
    shop: App, url: str
) -> None:
    refusals: list[str] = []

    @shop.task
    async def order() -> None:
        attempt = current_attempt()
        async with connected(url) as own:
            await attempt.hold(connection=own)
            attempt.progress(0.5)
            try:
                await attempt.checkpoint({"page": 1})
            except UsageError as error:
                refusals.append(str(error))
            await own.commit()
        await attempt.checkpoint({"page": 2})

    async with shop.worker():
        found = await ended(shop, await order.enqueue())

    assert found.status is Status.SUCCEEDED
    assert found.state == {"page": 2}
    assert len(refusals) == 1
    assert "after its transaction" in refusals[0]


@pytest.mark.parametrize("completes", [True, False])
async def test_the_last_word_of_progress_beside_a_hold_is_written_in_the_end(
    shop: App, url: str, *, completes: bool
) -> None:
    @shop.task
    async def order() -> None:
        attempt = current_attempt()
        async with connected(url) as own:
            await attempt.hold(connection=own)
            attempt.progress(0.9, "nearly")
            await asyncio.sleep(0.5)  # until a write of it has met the lock
            if completes:
                await attempt.complete(connection=own)
            await own.commit()

    async with shop.worker():
        found = await ended(shop, await order.enqueue())

    assert found.status is Status.SUCCEEDED
    assert found.progress == {"fraction": 0.9, "note": "nearly"}


async def test_one_that_completes_what_it_holds_after_its_timeout_has_succeeded(
    shop: App, url: str
) -> None:
    told: list[Event] = []
    shop.listen(told.append)

    @shop.task
    def tick() -> None: ...

    @shop.task(timeout=0.5)
    def order() -> None:
        attempt = current_attempt()
        with psycopg.connect(url) as own:
            attempt.hold_sync(connection=own)
            own.execute("INSERT INTO paid VALUES (1)")
            attempt.cancelled.wait(10)
            time.sleep(0.5)  # until its failure can't be written, as it has the row
            attempt.spawn(tick.options(queue="others").job())
            attempt.complete_sync(connection=own)

    async with shop.worker(queues=["default"]):
        found = await ended(shop, await order.enqueue())
        await eventually(lambda: AttemptRaisedLate in map(type, told))

    assert (found.status, found.failures) == (Status.SUCCEEDED, 0)
    assert successes(told) == [found.id]
    assert ClaimRefused not in map(type, told)
    assert [event.task for event in told if isinstance(event, JobEnqueued)] == [
        *("order", "tick")
    ]
    assert await paid(url) == 1


async def test_a_claim_is_renewed_again_when_its_hold_is_over(
    shop: App, url: str
) -> None:
    @shop.task
    async def order() -> None:
        async with connected(url) as own:
            await current_attempt().hold(connection=own)
            await asyncio.sleep(2.5)  # for longer than a lease
            await own.commit()
        await asyncio.sleep(2)  # and goes on for longer than another

    async with shop.worker(), shop.worker():
        found = await ended(shop, await order.enqueue())

    assert found.status is Status.SUCCEEDED
    assert (found.attempts, found.losses) == (1, 0)


async def test_a_claim_that_is_free_is_renewed_soon_though_the_first_try_fails(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another is held, so that it isn't yet time for all of them."""
    async with App(url, lease=6) as shop:
        let_go, end = asyncio.Event(), asyncio.Event()
        renewed: list[tuple[float, set[int]]] = []
        refused: list[float] = []
        renew = shop._store.renew

        async def refuse_once(keys: Collection[ClaimKey], **options: Any) -> Renewal:  # noqa: ANN401 - as they come
            if let_go.is_set() and not refused:
                refused.append(time.monotonic())
                raise StoreUnavailable
            renewal = await renew(keys, **options)
            renewed.append((time.monotonic(), {key.job_id for key in keys}))
            return renewal

        @shop.task
        async def hold(*, lets_go: bool) -> None:
            async with connected(url) as own:
                await current_attempt().hold(connection=own)
                await (let_go if lets_go else end).wait()
                await own.commit()
            await end.wait()

        monkeypatch.setattr(shop._store, "renew", refuse_once)
        async with shop.worker():
            free = known(await hold.enqueue(lets_go=True))
            held = known(await hold.enqueue(lets_go=False))
            # After one of its turns, none of which has them: the next is far away.
            await eventually(lambda: bool(renewed) and not renewed[-1][1])
            count = len(renewed)
            await eventually(lambda: len(renewed) > count, within=5)
            let_go.set()
            await eventually(lambda: free in renewed[-1][1], within=5)
            end.set()

    assert held not in renewed[count][1]
    (at,) = [at for at, ids in renewed if free in ids][:1]
    assert at - refused[0] < 1, at - refused[0]


async def test_a_shutdown_waits_for_a_transaction_within_its_time(
    shop: App, url: str
) -> None:
    sessions: list[Own] = []

    @shop.task
    async def order() -> None:
        own: Own = await AsyncConnection.connect(url)
        await own.execute("INSERT INTO paid VALUES (1)")
        await current_attempt().complete(connection=own)
        sessions.append(own)

    async with shop.worker(shutdown_timeout=3):
        first = known(await order.enqueue())
        await eventually(lambda: bool(sessions))
        asyncio.get_running_loop().call_later(
            0.5, lambda: asyncio.ensure_future(sessions[0].commit())
        )
    done = await shop.get(first)
    await sessions[0].close()

    began = time.monotonic()
    async with shop.worker(shutdown_timeout=2):
        second = known(await order.enqueue())
        await eventually(lambda: len(sessions) == 2)
    took = time.monotonic() - began
    left = await shop.get(second)
    await sessions[1].commit()
    await sessions[1].close()

    assert done.status is Status.SUCCEEDED
    assert left.status is Status.RUNNING
    assert took < 6, took
    assert (await shop.get(second)).status is Status.SUCCEEDED
    assert await paid(url) == 2


async def test_a_completion_whose_error_is_swallowed_is_no_success(
    shop: App, url: str
) -> None:
    @shop.task(max_attempts=1)
    async def order() -> None:
        attempt = current_attempt()
        async with connected(url, IsolationLevel.REPEATABLE_READ) as own:
            await own.execute("INSERT INTO paid VALUES (1)")
            # Behind the snapshot, as a renewal may be.
            await attempt.checkpoint({"page": 1})
            with suppress(SerializationFailure):
                await attempt.complete(connection=own)
            await own.commit()

    async with shop.worker():
        found = await ended(shop, await order.enqueue())

    assert found.last_error is not None
    assert found.last_error.startswith("CompletionRolledBack")
    assert await paid(url) == 0
