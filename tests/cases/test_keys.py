"""Cases of the kind *uniqueness*: a key, and the job that holds it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, TypeAlias

import pytest

from rowlock import App, Filter, KeyedTask, Retry, Status, StoreUnavailable
from rowlock._store import Demand
from rowlock.testing import FakeClock
from tests.conformance.stores import Connection, StoreCase
from tests.endings import ended, finished, known, reached, rested
from tests.eventually import eventually
from tests.journal import Journal
from tests.programs import gated
from tests.workers import Workers

Lend: TypeAlias = Callable[[], AbstractContextManager[Connection]]


async def test_b31_the_key_of_a_killed_worker_is_free_after_its_lease(
    app: App, journal: Journal, workers: Workers
) -> None:
    """A duplicate is answered with None; who holds the key is found by the key."""
    gated.register(app, journal)
    task = app.find_task("gated").options(max_attempts=1, idempotency_key="order:1")
    first = await workers.start("gated", "first")
    await workers.start("gated", "second", queues=["other"])
    job_id = await task.enqueue(gate="gate")
    await workers.until("started")
    first.kill()

    assert await task.enqueue(gate="gate") is None
    (holder,) = (await app.list(Filter(task="gated", idempotency_key="order:1"))).jobs
    assert (holder.id, holder.status) == (job_id, Status.RUNNING)
    await finished(app, [job_id])
    assert await task.enqueue(gate="gate") not in (None, job_id)


@pytest.fixture
def lend(
    shared_case: StoreCase, database_url: str
) -> Callable[[], AbstractContextManager[Connection]]:
    """A user's own connection, one each time."""
    assert shared_case.lend
    make = shared_case.lend
    return lambda: make(database_url)


async def test_b27_a_duplicate_of_what_was_rolled_back_gets_a_job(
    app: App, lend: Lend
) -> None:
    @app.task
    async def step() -> None: ...

    keyed = step.options(idempotency_key="K")
    with lend() as own:
        phantom = keyed.options(connection=own).enqueue_sync()
        waiting = asyncio.create_task(keyed.enqueue())
        # Nobody may say yet whether it is a duplicate.
        assert not (await asyncio.wait({waiting}, timeout=0.2))[0]
        own.rollback()
        job_id = await waiting

    assert job_id is not None
    assert [job.id for job in (await app.list()).jobs] == [job_id]
    assert phantom is not None


async def test_b27_a_duplicate_of_what_was_committed_is_told_so(
    app: App, lend: Lend
) -> None:
    @app.task
    async def step() -> None: ...

    keyed = step.options(idempotency_key="K")
    with lend() as own:
        job_id = keyed.options(connection=own).enqueue_sync()
        waiting = asyncio.create_task(keyed.enqueue())
        assert not (await asyncio.wait({waiting}, timeout=0.2))[0]
        own.commit()

    assert await waiting is None
    assert [job.id for job in (await app.list()).jobs] == [job_id]


async def test_b27_who_waited_too_long_is_told_to_try_again_and_gets_a_job(
    app: App, lend: Lend
) -> None:
    @app.task
    async def step() -> None: ...

    keyed = step.options(idempotency_key="K")
    with lend() as own:
        keyed.options(connection=own).enqueue_sync()
        with pytest.raises(StoreUnavailable, match="nothing was written, try again"):
            await keyed.enqueue()
        own.rollback()

    job_id = await keyed.enqueue()
    assert [job.id for job in (await app.list()).jobs] == [job_id]


def test_b27_of_five_transactions_with_one_key_the_committed_one_has_the_job(
    database_url: str, lend: Lend
) -> None:
    app = App(database_url)

    @app.task
    async def step() -> None: ...

    keyed = step.options(idempotency_key="K")
    barrier = threading.Barrier(5)

    def open_transaction(number: int) -> int | None:
        with lend() as own:
            barrier.wait()
            job_id = keyed.options(connection=own).enqueue_sync()
            time.sleep(0.02)  # the others try meanwhile
            (own.commit if number == 2 else own.rollback)()
        return job_id

    keyed_ids = []
    for _ in range(10):
        with ThreadPoolExecutor(5) as pool:
            ids = list(pool.map(open_transaction, range(5)))
        (job,) = app.list_sync(Filter(status=Status.PENDING)).jobs
        assert job.id == ids[2]
        app.cancel_sync(job.id)
        keyed_ids.append(job.id)
    app.close_sync()

    assert len(set(keyed_ids)) == 10


async def test_b28_a_job_keeps_its_key_through_retries(
    still_app: App, clock: FakeClock
) -> None:
    gate = asyncio.Event()
    runs = 0

    @still_app.task
    async def fail_once() -> None:
        nonlocal runs
        runs += 1
        await gate.wait()
        if runs == 1:
            raise Retry(delay=60)

    keyed = fail_once.options(idempotency_key="K")
    first = await keyed.enqueue()
    async with still_app.worker():
        await reached(still_app, first, Status.RUNNING)
        assert await keyed.enqueue() is None
        gate.set()
        await rested(still_app, first)
        # Pending again, it can't meet another one with its key.
        assert await keyed.enqueue() is None
        clock.advance(60)
        assert (await ended(still_app, first)).status is Status.SUCCEEDED
        second = await keyed.enqueue()
        assert (await ended(still_app, second)).status is Status.SUCCEEDED

    assert first != second


async def test_b28_a_job_keeps_its_key_when_its_lease_runs_out(
    still_app: App, clock: FakeClock
) -> None:
    @still_app.task
    async def step() -> None: ...

    keyed = step.options(idempotency_key="K")
    first = known(await keyed.enqueue())
    demand = Demand(total=1, tasks=frozenset({"step"}))
    await still_app._store.claim(demand, worker="gone", lease=timedelta(seconds=1))
    assert await keyed.enqueue() is None

    async def is_over() -> bool:
        # As fast as the worker renews, or the store would look out of reach.
        clock.advance(0.02)
        return (await still_app.get(first)).status.is_final

    async with still_app.worker(lease=1):
        await eventually(is_over)
        job = await still_app.get(first)
        assert (job.status, job.losses) == (Status.SUCCEEDED, 1)
        assert (await ended(still_app, await keyed.enqueue())).attempts == 1


async def test_b28_a_replay_waits_until_its_key_is_free(app: App) -> None:
    is_broken = True

    @app.task(max_attempts=1)
    async def step() -> None:
        if is_broken:
            raise ValueError

    keyed = step.options(idempotency_key="K")
    async with app.worker():
        dead = [
            (await ended(app, await keyed.enqueue())).id,
            (await ended(app, await keyed.enqueue())).id,
        ]
    is_broken = False
    holder = await keyed.enqueue()

    assert [str(a) for a in await app.replay(dead)] == [f"blocked by {holder}"] * 2
    async with app.worker():
        await ended(app, holder)
        # Of the two the newer one goes, and then the other.
        older, newer = await app.replay(dead)
        assert (str(newer), str(older)) == ("done", f"blocked by {dead[1]}")
        await reached(app, dead[1], Status.SUCCEEDED)
        (answer,) = await app.replay(dead[0])
        assert answer.done
        await reached(app, dead[0], Status.SUCCEEDED)


CALLERS, APPS = 50, 5


@pytest.fixture
def doors(database_url: str) -> Iterator[list[KeyedTask[[], Any]]]:
    """One task in several apps, each with its own connection to the database."""
    apps = [App(database_url) for _ in range(APPS)]

    async def step() -> None: ...

    yield [app.task(step).options(idempotency_key="K") for app in apps]
    for app in apps:
        app.close_sync()


def all_at_once(doors: list[KeyedTask[[], Any]]) -> list[int | None]:
    """Enqueue from many threads in one moment; what each was answered."""
    barrier = threading.Barrier(CALLERS)

    def enqueue(number: int) -> int | None:
        barrier.wait()
        return doors[number % APPS].enqueue_sync()

    with ThreadPoolExecutor(CALLERS) as pool:
        return list(pool.map(enqueue, range(CALLERS)))


async def test_b29_of_50_callers_at_once_one_gets_the_job_and_49_none(
    app: App, doors: list[KeyedTask[[], Any]], scale: int
) -> None:
    gate = asyncio.Event()

    @app.task
    async def step() -> None:
        await gate.wait()

    async with app.worker():
        for _ in range(5 if scale == 1 else 100):
            # The worker claims the job while the others still ask for it.
            gate.clear()
            answers = await asyncio.to_thread(all_at_once, doors)
            (job_id,) = [answer for answer in answers if answer is not None]
            gate.set()
            assert (await ended(app, job_id)).attempts == 1


async def test_b29_where_the_key_is_free_again_at_once_each_id_is_a_job(
    app: App, doors: list[KeyedTask[[], Any]], scale: int
) -> None:
    @app.task
    async def step() -> None: ...

    ids: list[int] = []
    async with app.worker():
        for _ in range(5 if scale == 1 else 100):
            answers = await asyncio.to_thread(all_at_once, doors)
            # None at all where the job of the round before isn't finished yet.
            ids += [answer for answer in answers if answer is not None]
        assert ids
        jobs = await finished(app, ids, within=30)

    assert len(set(ids)) == len(ids)
    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert len((await app.list(limit=1000)).jobs) == len(ids)
