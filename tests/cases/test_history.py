"""Cases of the kinds *retention* and *claim query*, on Postgres: much that is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from statistics import quantiles
from typing import Any

import psycopg
import pytest

from rowlock import App, Status, _outcome
from rowlock._job import Claim, NewJob
from rowlock._store import Demand, Retention
from rowlock.stores.postgres import PostgresStore
from tests.endings import finished
from tests.integration.postgres_given import opened

LEASE = timedelta(hours=1)
MAIL = frozenset({"mail"})
KEEP = Retention(
    succeeded=timedelta(days=9), cancelled=timedelta(days=9), failed=timedelta(0)
)


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    """An open store on it."""
    async with opened(url) as store:
        yield store


def fill(own: psycopg.Connection[Any], table: str, status: str, count: int) -> None:
    """Add jobs that ended just now, each with ten notes, of fifty dead workers."""
    own.execute(
        f"INSERT INTO rowlock.{table} (run_at, created_at, started_at, finished_at,"  # noqa: S608 - our names
        " updated_at, priority, max_attempts, status, queue, task, worker, payload,"
        " errors) SELECT now(), now(), now(), now(), now(), 0, 3, %s, 'default',"
        " 'mail', 'dead ' || n %% 50, '{}', (SELECT jsonb_agg(jsonb_build_object("
        "'type', 'E', 'message', repeat('x', 50))) FROM generate_series(1, 10))"
        " FROM generate_series(1, %s) AS n",
        (status, count),
    )


def assert_nothing_hangs_on_jobs(own: psycopg.Connection[Any]) -> None:
    """There is no foreign key, so no row's end reaches another's."""
    found = own.execute(
        "SELECT count(*) FROM pg_constraint WHERE contype = 'f'"
        " AND connamespace = 'rowlock'::regnamespace"
    ).fetchone()
    assert found == (0,)


async def test_b91_a_worker_begins_at_once_beside_many_finished_jobs_of_dead_workers(
    url: str, scale: int
) -> None:
    app = App(url)

    @app.task
    async def mail() -> None: ...

    with psycopg.connect(url, autocommit=True) as own:
        fill(own, "history", "succeeded", 10_000 if scale == 1 else 1_000_000)
        own.execute(
            "INSERT INTO rowlock.workers (id, host, pid, version, rowlock, tasks,"
            " queues, concurrency, lease, started_at, seen_at)"
            " SELECT 'dead ' || n, 'h', n, '1', '1', '{mail}', NULL, 5, '1 minute',"
            " at, at FROM generate_series(0, 49) AS n,"
            " (SELECT now() - interval '2 days') AS seen (at)"
        )
        async with app:
            job_id = await mail.enqueue()
            began = time.monotonic()
            async with app.worker():
                (job,) = await finished(app, [job_id])
                first_claim = time.monotonic() - began
                began = time.monotonic()
                await app._store.prune(app.retention, limit=1000)
                pruning = time.monotonic() - began

        assert job.status is Status.SUCCEEDED
        left = own.execute("SELECT FROM rowlock.workers WHERE id LIKE 'dead%'")
        assert left.fetchall() == []
        assert_nothing_hangs_on_jobs(own)
    assert first_claim < 2
    assert pruning < 1


async def test_b92_deleting_jobs_with_all_their_notes_holds_up_no_claim(
    store: PostgresStore, url: str
) -> None:
    """An attempt's notes are in its job's row, ten at most; no table has them."""
    with psycopg.connect(url, autocommit=True) as own:
        fill(own, "live", "failed", 2000)
        assert_nothing_hangs_on_jobs(own)
        ids = [i for (i,) in own.execute("SELECT id FROM rowlock.live LIMIT 500")]
    jobs = [NewJob(task="mail", queue="default", payload="{}")] * 300
    await store.enqueue(jobs)
    deleting = asyncio.create_task(store.delete(ids))
    pruning = asyncio.create_task(store.prune(KEEP, limit=1000))
    took = []
    for _ in range(100):
        began = time.monotonic()
        claimed = await store.claim(
            Demand(total=3, tasks=MAIL), worker="w", lease=LEASE
        )
        took.append(time.monotonic() - began)
        assert len(claimed.claims) == 3

    assert sum(answer.done for answer in await deleting) + (await pruning).deleted > 999
    # Which of the two had a row first is chance; neither keeps its locks for long.
    assert max(took) < 0.5
    while (await store.prune(KEEP, limit=1000)).deleted:
        pass
    assert [job.status for job in await store.get(ids)] == []


async def pass_through(
    store: PostgresStore, jobs: int, *, batch: int
) -> tuple[list[float], list[Claim]]:
    """Enqueue, claim and finish; how long each claim took, in seconds."""
    took: list[float] = []
    claims: list[Claim] = []
    job = NewJob(task="mail", queue="default", payload="{}")
    for _ in range(jobs // batch):
        await store.enqueue([job] * batch)
        began = time.perf_counter()
        claimed = await store.claim(
            Demand(total=batch, tasks=MAIL), worker="w", lease=LEASE
        )
        took.append(time.perf_counter() - began)
        await store.finish([_outcome.succeeded(held.key) for held in claimed.claims])
        claims += claimed.claims
    return took, claims


@pytest.mark.timeout(900)  # --slow finishes 300,000 jobs
async def test_b94_a_snapshot_that_stays_open_makes_no_claim_slower(
    store: PostgresStore, url: str, scale: int
) -> None:
    """
    Nothing that died since can be removed. Each job is written twice (claim, finish:
    a row is changed, then moved), and a renewal changes no column of an index.
    """
    rounds, jobs = (5, 3000) if scale == 1 else (10, 30_000)
    await pass_through(store, 1000, batch=100)
    with psycopg.connect(url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM rowlock.jobs")
        slowest = []
        for _ in range(rounds):
            took, claims = await pass_through(store, jobs, batch=100)
            assert len({claim.job_id for claim in claims}) == jobs
            slowest.append(quantiles(took, n=20)[-1])
        reader.rollback()

    told = ", ".join(f"{1000 * each:.1f}" for each in slowest)
    print(f"95th percentile of a claim of 100, by {jobs} jobs: {told} ms")  # noqa: T201 - measured
    assert min(slowest[-2:]) < 5 * max(slowest[0], 0.005)
