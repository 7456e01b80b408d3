"""A database out of reach for longer than any lease: who holds what when it is back."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rowlock import App, Status
from rowlock._worker.outage import LONGEST_DELAY_S
from tests.cluster_fixtures import OwnCluster
from tests.endings import ended, finished, known
from tests.journal import Gate, Journal
from tests.programs import gated
from tests.workers import START_S, Workers

from .command_line import Command
from .reach import Reach, of_file, of_server
from .supervising import SHOP, ends, prints, started

LEASE_S = 2.0
SHUTDOWN_S = 2.0
BUSY_CORES_S = 2.0


@pytest.fixture(params=["sqlite-file", "postgres"])
async def reach(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Reach]:
    """A database that can be put out of reach, on each store."""
    if request.param == "postgres":
        start: OwnCluster = request.getfixturevalue("own_cluster")
        made = of_server(start())
    else:
        made = of_file(tmp_path)
    async with made as reach:
        yield reach


@pytest.fixture
def database_url(reach: Reach) -> str:
    """Its URL."""
    return reach.url


@pytest.mark.timeout(120)  # three leases, and processes that start on busy cores
async def test_law_17_after_three_leases_out_of_reach_all_holders_have_their_jobs(
    app: App, journal: Journal, workers: Workers, reach: Reach
) -> None:
    """
    One of the two comes back later than the other, and later than a third worker,
    whose first look is at leases that were over long ago.
    """
    gated.register(app, journal)
    task = app.find_task("gated")
    prompt, late = [
        await workers.start("gated", label, concurrency=3, lease=LEASE_S)
        for label in ("prompt", "late")
    ]
    ids = await app.enqueue_many(task.job(gate="gate") for _ in range(6))
    await workers.until("started", count=6)

    await reach.lose()
    await asyncio.sleep(2 * LEASE_S)  # the length of this outage, by real leases
    late.freeze_now()
    await asyncio.sleep(LEASE_S)  # the third of them
    await reach.find()
    # Not waited for: on busy cores that might last longer than the grace of the prompt.
    fresh = workers.launch("gated", "fresh", concurrency=3, lease=LEASE_S)
    await asyncio.sleep(LEASE_S / 4)  # in which whoever is hasty takes them
    late.thaw()
    await workers.until("worker.started", process=fresh.name, within=START_S)
    await workers.until("store.recovered", process=late.name)
    await asyncio.sleep(2 * LEASE_S)  # until each one's grace is over
    assert workers.records("claimed", process=fresh.name) == []
    Gate(journal.folder, "gate").open()
    jobs = await finished(app, ids)

    assert {(job.status, job.claims, job.attempts) for job in jobs} == {
        (Status.SUCCEEDED, 1, 1)
    }
    assert {(job.losses, job.failures) for job in jobs} == {(0, 0)}
    for job_id in ids:
        assert len(workers.records("started", job_id=job_id)) == 1
    assert workers.records("claim.recovered") == workers.records("claim.lost") == []
    assert len(workers.records("claimed", process=prompt.name)) == 3
    # Each of them is as good a worker as before.
    last = await app.enqueue_many(task.job(gate="gate") for _ in range(30))
    assert {job.attempts for job in await finished(app, last)} == {1}
    assert [each.stop() for each in (prompt, late, fresh)] == [0, 0, 0]


@pytest.fixture
def shop(reach: Reach, folder: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    """A working folder with an app on it, and the same app in here."""
    (folder / "shop.py").write_text(SHOP)
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", reach.url)
    namespace: dict[str, App] = {}
    exec(SHOP, namespace)  # noqa: S102 - the very text that the worker imports
    return namespace["app"]


async def enqueue(shop: App, task: str, **arguments: float) -> int:
    """Enqueue on connections of its own, none of which the outage has broken."""
    async with shop:
        return known(await shop.tasks[task].enqueue(**arguments))


@pytest.mark.timeout(120)  # an outage of real seconds
@pytest.mark.parametrize("doing", ["idle", "busy"])
async def test_b13_the_same_process_goes_on_when_its_database_is_back(
    shop: App, start: type[Command], reach: Reach, scale: int, doing: str
) -> None:
    """15 s in the case and with --slow; after 6 s each loop waits as long as ever."""
    # So short a lease that all its loops meet the outage.
    worker = start("worker", "shop:app", "--lease", LEASE_S)
    first = await enqueue(shop, "nap", seconds=0)
    pid = (await prints(worker, rf"began nap {first}/1 in (\d+)"))[1]
    held = await enqueue(shop, "nap", seconds=600 if doing == "busy" else 0)
    await prints(worker, f"began nap {held}/1")
    if doing == "idle":
        async with shop:
            await ended(shop, held)

    await reach.lose()
    await asyncio.sleep(6 if scale == 1 else 15)  # the case's own length
    await reach.find()
    back_at = time.monotonic()
    later = await enqueue(shop, "nap", seconds=0)
    found = await prints(worker, rf"began nap {later}/1 in (\d+)")

    assert time.monotonic() - back_at < LONGEST_DELAY_S + BUSY_CORES_S
    assert found[1] == pid
    assert worker.output.count("worker.started") == 1
    assert "store.unavailable" in worker.output
    async with shop:
        assert (await ended(shop, later)).attempts == 1
        job = await shop.get(held)
        is_busy = doing == "busy"
        assert job.status is (Status.RUNNING if is_busy else Status.SUCCEEDED)
        assert (job.attempts, job.losses) == (1, 0)


@pytest.mark.parametrize("doing", ["idle", "busy"])
async def test_b13_a_sigterm_while_its_database_is_away_ends_it_in_time(
    shop: App, start: type[Command], reach: Reach, doing: str
) -> None:
    worker = start("worker", "shop:app", "--shutdown-timeout", SHUTDOWN_S)
    await started(worker, 1)
    if doing == "busy":
        job_id = await enqueue(shop, "nap")
        await prints(worker, f"began nap {job_id}/1")
    await reach.lose()
    if doing == "busy":
        await prints(worker, "store.unavailable")
    told_at = time.monotonic()
    worker.signal(signal.SIGTERM)

    # A handler's claim that can't be given back is left to its lease.
    assert await ends(worker) == (1 if doing == "busy" else 0)
    assert time.monotonic() - told_at < SHUTDOWN_S + 2
    await reach.find()


async def test_b13_a_start_without_its_database_ends_with_one_sentence(
    shop: App, start: type[Command], reach: Reach
) -> None:
    await reach.lose()
    worker = start("worker", "shop:app", "--no-supervisor")

    assert await ends(worker) == 4
    (line,) = worker.lines
    said = "is out of reach: check that it runs|is locked by another connection"
    assert re.match(rf"Error: The database \S+ ({said})", line)
    await reach.find()
    async with shop:
        assert (await shop.stats()).workers == ()


async def test_b13_a_supervised_start_waits_for_its_database_and_says_so_once(
    shop: App, start: type[Command], reach: Reach
) -> None:
    await reach.lose()
    worker = start("worker", "shop:app")
    await prints(worker, "No worker could start, which is tried again: ")
    await asyncio.sleep(3)  # for some more tries, in other processes
    assert worker.process.poll() is None
    (_,) = worker.lines
    await reach.find()
    job_id = await enqueue(shop, "nap", seconds=0)

    await prints(worker, f"began nap {job_id}/1")
