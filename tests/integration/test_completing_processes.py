"""
Exactly once, in the handler's own transaction, whatever becomes of its process.

Workers that are stopped, thawed and killed at each step of it leave one effect, and
hold up no other job; at every isolation level.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from rowlock import App, Job, Status
from tests.endings import finished, known, reached
from tests.journal import Journal
from tests.programs import paying
from tests.workers import LEASE_S, RECOVERED_S, WorkerProcess, Workers

pytestmark = pytest.mark.timeout(180)

LEVELS = pytest.mark.parametrize("level", list(paying.LEVELS))
LONGEST_DELAY_S = 1.0


class Shop:
    """A database with a table of its own, an app on it, and worker processes."""

    def __init__(self, url: str, app: App, workers: Workers, journal: Journal) -> None:
        self.url, self.app, self.workers, self.journal = url, app, workers, journal

    async def start(self, label: str) -> WorkerProcess:
        return await self.workers.start("paying", label)

    async def enqueue(self, level: str, *, holds: bool = False) -> int:
        pay = self.app.find_task("pay")
        return known(await pay.enqueue(self.url, level, holds=holds))

    def open(self, level: str, *steps: str) -> None:
        for step in steps:
            paying.gate(self.journal.folder, level, step).open()

    async def paid(self, job_id: int) -> int:
        async with await psycopg.AsyncConnection.connect(self.url) as own:
            found = await own.execute(
                "SELECT count(*) FROM paid WHERE id = %s", (job_id,)
            )
            ((count,),) = await found.fetchall()
        return int(count)

    async def nobody_waits(self) -> None:
        """Have other jobs run for longer than a lease, each within a second."""
        tick = self.app.find_task("tick")
        ids = []
        for _ in range(15):
            ids.append(await tick.enqueue())
            await asyncio.sleep(RECOVERED_S / 15)  # what would recover it, does
        delays = [delay_of(job) for job in await finished(self.app, ids)]
        assert max(delays) < LONGEST_DELAY_S, delays


def delay_of(job: Job) -> float:
    assert job.finished_at is not None
    return (job.finished_at - job.created_at).total_seconds()


@pytest.fixture
async def shop(url: str, journal: Journal) -> AsyncIterator[Shop]:
    """A shop whose journal is shared by all its workers."""
    async with await psycopg.AsyncConnection.connect(url) as own:
        await own.execute("CREATE TABLE paid (id bigint)")
    app = App(url, lease=LEASE_S)
    paying.register(app, journal)
    workers = Workers(url, journal.folder)
    yield Shop(url, app, workers, journal)
    workers.close()
    await app.close()


@LEVELS
async def test_a_worker_stopped_before_complete_has_lost_and_commits_nothing(
    shop: Shop, level: str
) -> None:
    late = await shop.start("late")
    job_id = await shop.enqueue(level)
    await shop.workers.until("paid", process=late.name)
    late.freeze_now()

    other = await shop.start("other")
    await shop.workers.until("paid", process=other.name, within=2 * RECOVERED_S)
    shop.open(level, "complete", "commit", "return")
    job = await reached(shop.app, job_id, Status.SUCCEEDED)
    late.thaw()
    (refused,) = await shop.workers.until("refused", process=late.name)

    kinds = {"ClaimLost"} if level == "read committed" else {"SerializationFailure"}
    assert {refused.of["kind"]} == kinds
    # Of the other, too, a renewal may come behind the snapshot: then it tries again.
    assert (job.attempts - job.failures, job.losses) == (2, 1)
    assert not (level == "read committed" and job.failures)
    assert await shop.paid(job_id) == 1
    assert (await shop.app.get(job_id)).status is Status.SUCCEEDED


@LEVELS
async def test_a_worker_stopped_while_it_holds_its_job_loses_nothing(
    shop: Shop, level: str
) -> None:
    late = await shop.start("late")
    job_id = await shop.enqueue(level, holds=True)
    await shop.workers.until("paid", process=late.name)
    late.freeze_now()

    await shop.start("other")
    await shop.nobody_waits()
    held = await shop.app.get(job_id)
    shop.open(level, "complete", "commit", "return")
    late.thaw()
    job = await reached(shop.app, job_id, Status.SUCCEEDED)

    assert held.status is Status.RUNNING
    assert (job.attempts, job.losses, job.failures) == (1, 0, 0)
    assert await shop.paid(job_id) == 1
    assert not shop.workers.records("refused")


@LEVELS
async def test_a_worker_stopped_before_its_commit_is_waited_for_by_nobody(
    shop: Shop, level: str
) -> None:
    late = await shop.start("late")
    shop.open(level, "complete")
    job_id = await shop.enqueue(level)
    await shop.workers.until("completed", process=late.name)
    late.freeze_now()

    await shop.start("other")
    await shop.nobody_waits()
    held = await shop.app.get(job_id)
    shop.open(level, "commit", "return")
    late.thaw()
    job = await reached(shop.app, job_id, Status.SUCCEEDED)
    await shop.workers.until("attempt.succeeded", process=late.name, job_id=job_id)

    assert held.status is Status.RUNNING
    assert (job.attempts, job.losses, job.failures) == (1, 0, 0)
    assert await shop.paid(job_id) == 1
    assert not shop.workers.records("claim.recovered")


@LEVELS
async def test_a_worker_killed_before_its_commit_has_paid_nothing(
    shop: Shop, level: str
) -> None:
    late = await shop.start("late")
    shop.open(level, "complete")
    job_id = await shop.enqueue(level)
    await shop.workers.until("completed", process=late.name)
    late.kill()

    other = await shop.start("other")
    shop.open(level, "commit", "return")
    job = await reached(shop.app, job_id, Status.SUCCEEDED)

    assert (job.attempts, job.losses) == (2, 1)
    assert [each.process for each in shop.workers.records("committed")] == [other.name]
    assert await shop.paid(job_id) == 1


@LEVELS
async def test_a_worker_killed_after_its_commit_has_succeeded(
    shop: Shop, level: str
) -> None:
    late = await shop.start("late")
    shop.open(level, "complete", "commit")
    job_id = await shop.enqueue(level)
    await shop.workers.until("committed", process=late.name)
    late.kill()

    await shop.start("other")
    await shop.nobody_waits()
    job = await shop.app.get(job_id)

    assert job.status is Status.SUCCEEDED
    assert (job.attempts, job.losses, job.failures) == (1, 0, 0)
    assert len(shop.workers.records("paid")) == await shop.paid(job_id) == 1
