"""What a claim reads where much stands at the head of its line that it can't take."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from statistics import median
from typing import Any

import psycopg
import pytest

from rowlock import _outcome
from rowlock._job import Claim
from rowlock._store import Demand
from rowlock.stores.postgres import PostgresStore, finish
from rowlock.stores.postgres.claim import Taker
from rowlock.stores.postgres.sessions import Session
from tests.cluster.databases import Databases

from . import crowds
from .plans import Plan, Plans

ROOM = 100
ROUNDS = 5
BACKLOG = 5000
LARGEST = 500  # that a worker claims
TAKER = Taker(worker="w", lease=timedelta(minutes=5), alone=False)


class Worker:
    """Claims and finishes on one connection, which tells its plans."""

    def __init__(self, store: PostgresStore, session: Session, plans: Plans) -> None:
        self._store = store
        self._session = session
        self._plans = plans

    async def claim(self, room: int = ROOM) -> tuple[Claim, ...]:
        demand = Demand(total=room, tasks=frozenset({"mail"}))
        claimed = await self._store._database.claimer.claim(
            self._session, demand, TAKER, lambda _: None
        )
        assert len(claimed.claims) == room
        return claimed.claims

    async def run(self, jobs: int) -> None:
        """Run so many jobs."""
        for _ in range(0, jobs, LARGEST):
            held = await self.claim(LARGEST)
            await finish.finish(
                self._session, [_outcome.succeeded(each.key) for each in held]
            )

    async def bounded(self) -> tuple[float, float]:
        """Claim where the last claim ended; rows and pages read, by median."""
        self._plans.told.clear()
        for _ in range(ROUNDS):
            await self.claim()
        told = self._plans.told
        assert {plan.operation for plan in told} == {"claim"}
        return (
            median(plan.rows_read for plan in told),
            median(plan.pages_read for plan in told),
        )

    async def full(self) -> list[Plan]:
        """Claim where nothing is known."""
        self._store._database.bounds.doubt()
        self._plans.told.clear()
        await self.claim()
        assert {plan.operation for plan in self._plans.told} >= {"lines", "claim"}
        return list(self._plans.told)


@pytest.fixture
def url(each_postgres: Databases) -> Iterator[str]:
    """A database with a backlog, as it is after a vacuum."""
    url = each_postgres.clone()
    with psycopg.connect(url, autocommit=True) as admin:
        crowds.leave_unattended(admin)
        crowds.add_backlog(admin, BACKLOG, ahead="-1 hour")
        admin.execute("VACUUM ANALYZE")
    yield url
    each_postgres.drop(url)


@pytest.fixture
async def worker(url: str) -> AsyncIterator[Worker]:
    """A worker on it."""
    store = PostgresStore.from_url(url)
    await store.open()
    session = await store._database.connect()
    plans = await Plans.of(session, store._database.statements)
    yield Worker(store, session, plans)
    await session.close()
    await store.close()


@pytest.mark.timeout(600)  # at full size
@pytest.mark.parametrize(
    "head", ["nothing", "finished jobs under a snapshot", "future jobs", "unknown jobs"]
)
async def test_a_bounded_claim_reads_no_more_than_where_nothing_is_in_its_way(
    worker: Worker, url: str, head: str, scale: int
) -> None:
    await worker.claim()
    clean = await worker.bounded()
    with psycopg.connect(url, autocommit=True) as admin, psycopg.connect(url) as user:
        if head == "finished jobs under a snapshot":
            hold_snapshot(user)
            jobs = 10_000 if scale == 1 else 50_000
            crowds.add_backlog(admin, jobs, ahead="-2 hours")
            await worker.full()
            await worker.run(jobs - ROOM)
        elif head == "future jobs":
            crowds.add_backlog(admin, 100_000 * scale, ahead="1 day", priority=100)
        elif head == "unknown jobs":
            crowds.add_backlog(admin, 100_000 * scale, ahead="-2 hours", task="else")
        full = await worker.full()
        found = await worker.bounded()

    tell(head, url, clean, found, full)
    assert found[0] <= 2 * clean[0]
    assert found[1] <= 2 * clean[1]


def hold_snapshot(user: psycopg.Connection[Any]) -> None:
    """See the database as it is now, for as long as this transaction lives."""
    user.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    user.execute("SELECT FROM rowlock.jobs LIMIT 1")


def tell(
    head: str,
    url: str,
    clean: tuple[float, float],
    found: tuple[float, float],
    full: list[Plan],
) -> None:
    """Print what was read, and what a full look costs; pytest shows it with -rP."""
    with psycopg.connect(url) as user:
        version = user.info.server_version // 10000
    parts = ", ".join(
        f"{plan.operation} {plan.took_ms:.1f} ms and {plan.pages_read} pages"
        for plan in full
    )
    sys.stdout.write(
        f"PostgreSQL {version}, at the head {head}: a bounded claim of {ROOM} read"
        f" {found[0]:.0f} rows and {found[1]:.0f} pages, a clean one {clean[0]:.0f} and"
        f" {clean[1]:.0f}; a full look: {parts}\n"
    )
