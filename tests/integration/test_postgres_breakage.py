"""Postgres breaks under running workers: sessions end, it restarts, rows are locked."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, TypeAlias

import psycopg
import pytest

from rowlock import App, Filter, Status
from rowlock._errors import OutcomeUnknown, StoreUnavailable
from rowlock.stores import connect
from rowlock.stores.postgres import PostgresStore
from rowlock.stores.postgres.sessions import Session
from tests.cluster_fixtures import OwnCluster
from tests.endings import finished, known
from tests.eventually import eventually
from tests.integration import ledger
from tests.journal import Journal
from tests.off_clock import OffClock
from tests.programs import chance
from tests.workers import START_S, Workers

MINUTE = timedelta(minutes=1)
# Of sessions, at least.
DEATHS = 20
Mode: TypeAlias = Literal["fast", "immediate"]
MODES: list[Mode] = ["fast", "immediate"]


async def insist(app: App, task: str, number: int) -> int:
    """Enqueue with a key until it is known to be there."""
    keyed = app.find_task(task).options(idempotency_key=f"job {number}")
    while True:
        try:
            job_id = await keyed.enqueue(number=number)
        except (OutcomeUnknown, StoreUnavailable):
            continue
        if job_id is not None:
            return job_id
        # Written, and its answer was lost.
        page = await app.list(Filter(idempotency_key=f"job {number}"))
        return page.jobs[0].id


async def kill(url: str, killed: list[object]) -> None:
    """End sessions of the store, the busy ones first, until cancelled."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as own:
        while True:
            await asyncio.sleep(random.uniform(0, 0.06))  # the rhythm of this test
            cursor = await own.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'rowlock'"
                " ORDER BY state <> 'active', random() LIMIT 1"
            )
            killed += await cursor.fetchall()


async def test_sessions_that_end_at_any_moment_cost_no_job(
    url: str, scale: int
) -> None:
    """In a claim, a finish, a renewal, an enqueue or while listening, many times."""
    jobs = 300 * scale
    app, feeder = App(url, lease=5), App(url)
    runs: Counter[int] = Counter()
    killed: list[object] = []

    async def note(number: int) -> None:
        runs[number] += 1
        await asyncio.sleep(random.uniform(0, 0.02))  # a job takes its time

    for each in (app, feeder):
        each.task(note)
    async with app, feeder, app.worker(concurrency=20):
        killing = asyncio.create_task(kill(url, killed))
        ids = [await insist(feeder, "note", number) for number in range(jobs)]
        # The last ones are hit as well.
        await eventually(lambda: len(killed) > DEATHS, within=30)
        killing.cancel()
        await asyncio.wait([killing])
        over = await finished(feeder, ids, within=60)

    assert {job.status for job in over} == {Status.SUCCEEDED}
    # A claim whose answer was lost is given back; one that ran is told once.
    assert len(set(ids)) == jobs
    assert set(runs) == set(range(jobs))
    losses = sum(job.losses for job in over)
    assert sum(runs.values()) - jobs <= losses
    print(f"{len(killed)} sessions ended, {losses} losses")  # noqa: T201 - measured


@pytest.mark.parametrize("mode", MODES)
async def test_a_restart_under_two_workers_costs_no_job(
    own_cluster: OwnCluster, tmp_path: Path, mode: Mode
) -> None:
    cluster = own_cluster()
    store = connect(cluster.url)
    await store.migrate()
    await store.close()
    folder = tmp_path / "journal"
    folder.mkdir()
    journal = Journal(folder, "test")
    workers = Workers(cluster.url, folder)
    try:
        async with App(cluster.url) as app:
            chance.register(app, journal)
            for label in ("one", "two"):
                workers.launch("chance", label, lease=3)
            await workers.until("worker.started", count=2, within=START_S)
            ids = await app.enqueue_many(
                app.find_task(name).job()
                for name in ("gamble", "gamble_in_thread") * 30
            )
            await workers.until("started", count=5)

            await asyncio.to_thread(cluster.stop, mode)
            await workers.until("store.unavailable", count=2)
            await asyncio.to_thread(cluster.start)
            over = await finished(app, ids, within=60)

            accounts = ledger.accounts_of(workers.records())
            for job in over:
                ledger.check(job, accounts)
            assert {job.losses for job in over} == {0}
            assert {job.status for job in over} <= {Status.SUCCEEDED, Status.FAILED}
    finally:
        workers.close()
        journal.close()


async def test_rows_that_a_user_holds_for_long_hold_up_nobody_else(
    url: str, scale: int
) -> None:
    app = App(url, lease=60)
    go_on = asyncio.Event()

    @app.task
    async def wait() -> None:
        await go_on.wait()

    @app.task
    async def go() -> None: ...

    with psycopg.connect(url) as user:
        async with app, app.worker(concurrency=40):
            held = await app.enqueue_many(wait.job() for _ in range(10))
            pending = [await go.options(delay=1).enqueue() for _ in range(10)]
            await eventually(lambda: statuses(url).count("running") == 10)
            user.execute("SELECT FROM rowlock.live FOR UPDATE")
            go_on.set()
            began = time.monotonic()
            others = await app.enqueue_many(go.job() for _ in range(300))
            over = await finished(app, others, within=20)
            took = time.monotonic() - began
            await asyncio.sleep(3 if scale == 1 else 10)  # the case's own
            user.rollback()
            # Nobody tells of the rollback: whoever claims next finds them.
            late = await finished(app, [*held, await go.enqueue(), *pending], within=20)

    assert {job.status for job in (*over, *late)} == {Status.SUCCEEDED}
    assert took < 5
    assert {(job.claims, job.losses) for job in late} == {(1, 0)}


def statuses(url: str) -> list[str]:
    with psycopg.connect(url) as own:
        found = own.execute("SELECT status FROM rowlock.jobs").fetchall()
        return [status for (status,) in found]


async def test_20000_due_jobs_in_300_queues_are_claimed_by_turns(
    url: str, scale: int
) -> None:
    count = 3000 if scale == 1 else 20_000
    app = App(url)
    order: list[int] = []

    @app.task
    async def note(number: int) -> None:
        order.append(number % 300)

    async with app:
        ids = await app.enqueue_many(
            note.options(queue=f"queue {n % 300}").job(number=n) for n in range(count)
        )
        began = time.monotonic()
        async with app.worker(concurrency=100):
            await eventually(lambda: len(order) == count, within=90)
        took = time.monotonic() - began

        # Nobody starves: a third of the way through each queue has had its turn.
        assert set(order[: count // 3]) == set(range(300))
        assert {
            job.status for job in await app._store.get([known(i) for i in ids])
        } == {Status.SUCCEEDED}
    print(f"{count / took:,.0f} jobs/s from 300 queues")  # noqa: T201 - measured


async def test_a_machine_whose_clock_is_wrong_by_an_hour_makes_no_difference(
    url: str,
) -> None:
    apps = [App(url, clock=OffClock(timedelta(hours=h)), lease=1) for h in (1, -1)]
    started: list[tuple[int, float]] = []

    async def nap(number: int) -> None:
        started.append((number, time.monotonic()))
        await asyncio.sleep(2.5)  # longer than its lease

    for app in apps:
        app.task(nap)
    async with apps[0], apps[1], apps[0].worker(), apps[1].worker():
        began = time.monotonic()
        ids = [
            await app.find_task("nap").options(delay=0.5).enqueue(number=n)
            for n, app in enumerate(apps * 4)
        ]
        over = await finished(apps[0], ids, within=20)

    assert {(job.status, job.claims) for job in over} == {(Status.SUCCEEDED, 1)}
    assert len({job.worker for job in over}) == 2
    assert sorted(number for number, _ in started) == list(range(8))
    assert all(0.4 < at - began < 3 for _, at in started)
    assert all(abs(datetime.now(UTC) - job.created_at) < MINUTE for job in over)


async def test_a_blocking_call_on_our_loop_gets_past_a_transaction_of_ours(
    url: str,
) -> None:
    """Between two statements of ours only the loop can go on, and it is blocked."""
    store = PostgresStore.from_url(url)
    await store.open()
    async with App(url) as app:
        job_id = known(await app.task(_nothing).enqueue())
    between = asyncio.Event()

    async def two_statements(session: Session) -> None:
        async with session.transaction():
            await session.run("lock", ids=f"{{{job_id}}}")
            between.set()
            await asyncio.sleep(0)
            await session.run("lock", ids=f"{{{job_id}}}")

    ours = asyncio.create_task(store._database.write(two_statements))
    await between.wait()
    began = time.monotonic()
    with psycopg.connect(url) as own:
        own.execute("UPDATE rowlock.live SET priority = 5")
    took = time.monotonic() - began

    assert took < 7
    with pytest.raises(StoreUnavailable, match="blocked the event loop") as told:
        await ours
    assert "nothing was written" in str(told.value)
    assert (await store.get([job_id]))[0].priority == 5
    await store.close()


def _nothing() -> None: ...
