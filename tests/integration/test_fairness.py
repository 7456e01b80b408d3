"""How queues share a worker, and workers a queue, as real processes."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from statistics import median, quantiles

import pytest

from rowlock import App, Job, NewJob, Status
from tests.endings import finished
from tests.eventually import eventually

from .command_line import Command
from .supervising import app_of, ends, started

MINUTES = 60

TASKS = '''
import asyncio
import time

from rowlock import App

app = App()


@app.task(queue="busy")
async def nothing() -> None: ...


@app.task(queue="calm")
async def tell() -> float:
    """Tell when it started."""
    return time.time()


@app.task
async def short(seconds: float) -> None:
    """Take a moment, as a handler does that asks somebody."""
    await asyncio.sleep(seconds)
'''


@pytest.fixture
async def fair(
    folder: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[App]:
    """A working folder with that app as `fair.py`, on each store, and it in here."""
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", database_url)
    async with app_of(folder, "fair", TASKS) as app:
        yield app


async def enqueue(app: App, job: NewJob, count: int) -> None:
    """Enqueue so many jobs, in a few transactions."""
    for begin in range(0, count, 5000):
        await app.enqueue_many([job] * min(5000, count - begin))


async def is_done(app: App, count: int) -> bool:
    """Tell whether so many jobs have succeeded."""
    stats = await app.stats()
    done = sum(queue.counts.get(Status.SUCCEEDED, 0) for queue in stats.queues)
    return done == count


async def shares_of(app: App) -> Counter[str | None]:
    """Count the jobs of each worker."""
    shares: Counter[str | None] = Counter()
    page = await app.list(limit=1000)
    shares.update(job.worker for job in page.jobs)
    while page.after is not None:
        page = await app.list(after=page.after, limit=1000)
        shares.update(job.worker for job in page.jobs)
    return shares


def waits(job: Job) -> tuple[float, float]:
    """Tell how long a due job waited for its claim, and for its handler."""
    assert job.started_at is not None
    assert isinstance(job.result, float)
    claimed = job.started_at - job.run_at
    return claimed.total_seconds(), job.result - job.run_at.timestamp()


def worst(waits: Iterable[float]) -> float:
    """Tell the wait of one in a hundred."""
    return quantiles(waits, n=100)[-1]


@pytest.mark.timeout(20 * MINUTES)  # --slow enqueues a million jobs
@pytest.mark.parametrize("concurrency", [5, 50])
async def test_ten_jobs_a_second_start_at_once_beside_a_million_of_another_queue(
    fair: App, start: type[Command], scale: int, concurrency: int
) -> None:
    """Beside 60,000, for three seconds, where it is not `--slow`."""
    backlog, count = (1_000_000, 300) if scale > 1 else (60_000, 30)
    await enqueue(fair, fair.find_task("nothing").job(), backlog)
    worker = start(
        "worker", "fair:app", "--no-supervisor", "--concurrency", concurrency
    )
    await started(worker, 1)

    ids = []
    for _ in range(count):
        ids.append(await fair.find_task("tell").enqueue())
        await asyncio.sleep(0.1)  # the case's own: ten a second
    jobs = await finished(fair, ids)
    left = [queue for queue in (await fair.stats()).queues if queue.queue == "busy"]
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0

    assert left[0].counts[Status.PENDING] > 0, "the backlog was over too early"
    claimed, began = zip(*map(waits, jobs), strict=True)
    if scale > 1:
        assert worst(claimed) < 0.1
        assert worst(began) < 0.1
    assert median(began) < 0.1
    assert max(began) < 1


@pytest.mark.timeout(10 * MINUTES)  # --slow reads 40,000 jobs, a page at a time
async def test_eight_processes_share_a_queue_alike(
    fair: App, start: type[Command], scale: int
) -> None:
    """
    Jobs that take no time are shared as the system shares its cores. Where it isn't
    `--slow` they take longer, so that a busy machine has time for all eight.
    """
    count, seconds, most = (40_000, 0.005, 1.2) if scale > 1 else (4_000, 0.05, 1.5)
    crew = start("worker", "fair:app", "--processes", 8)
    await started(crew, 8)

    await enqueue(fair, fair.find_task("short").job(seconds=seconds), count)
    await eventually(lambda: is_done(fair, count), within=5 * MINUTES)
    crew.signal(signal.SIGTERM)
    assert await ends(crew) == 0
    shares = await shares_of(fair)

    assert shares.total() == count
    assert len(shares) == 8
    if fair.url.startswith("sqlite"):
        # Whoever asks first has the file next: who waits in vain waits longer.
        most = 1.5
    assert max(shares.values()) <= most * min(shares.values()), shares
