"""Jobs that kill their worker, under a supervisor that starts it again and again."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rowlock import App, Job, Status
from tests.endings import ended, jobs_of, known
from tests.eventually import eventually

from .command_line import Command
from .supervising import app_of, ends, started

pytestmark = pytest.mark.timeout(200)  # many processes start, one after another

SHOP = """
import asyncio
import os
import signal

from rowlock import App, current_attempt

app = App()


def began() -> None:
    job = current_attempt()
    print(f"began {job.task} {job.job_id}/{job.number} in {os.getpid()}", flush=True)


@app.task
async def poison(after: float = 0.0) -> None:
    began()
    await asyncio.sleep(after)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
async def innocent(seconds: float = 0.0) -> None:
    began()
    await asyncio.sleep(seconds)
"""


@pytest.fixture
def shop(folder: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> App:
    """A working folder with that app, on each store, and the same app in here."""
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", database_url)
    return app_of(folder, "shop", SHOP)


async def all_end(app: App, ids: Sequence[int | None]) -> Sequence[Job]:
    """Wait until all these are over; what waits after a loss is made due at once."""

    async def are_over() -> bool:
        jobs = await jobs_of(app, ids)
        now = datetime.now(UTC)
        late = [job.id for job in jobs if job.losses > 1 and job.run_at > now]
        if late:
            await app.move(late, delay=0)
        return all(job.status.is_final for job in jobs)

    await eventually(are_over, within=60, what="the jobs end")
    return await jobs_of(app, ids)


def starts_of(worker: Command, job_id: int | None) -> list[int]:
    """Tell which attempts of a job have begun."""
    found = re.findall(rf"began \w+ {job_id}/(\d+) ", worker.output)
    return [int(number) for number in found]


async def goes_on(app: App, worker: Command, deaths: int) -> None:
    """See that the next worker lives, and dies of nothing any more."""
    await started(worker, deaths + 1)
    jobs = [await app.tasks["innocent"].enqueue() for _ in range(5)]
    assert {(await ended(app, each)).attempts for each in jobs} == {1}
    assert worker.output.count("was ended by SIGKILL; what it held is rec") == deaths
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0
    assert worker.output.count("worker.started") == deaths + 1


@pytest.mark.parametrize("concurrency", [1, 5])
async def test_b24_a_supervised_worker_is_killed_by_one_job_three_times_and_no_more(
    shop: App, start: type[Command], concurrency: int
) -> None:
    """Of five at once the first loss is no failure; it ends as a dead letter too."""
    async with shop:
        deadly = known(await shop.tasks["poison"].enqueue())
        behind = known(await shop.tasks["innocent"].enqueue())
        worker = start("worker", "shop:app", "--concurrency", concurrency)
        bad, good = await all_end(shop, [deadly, behind])
        await goes_on(shop, worker, deaths=3)
        bad = await shop.get(deadly)

    assert (bad.status, bad.attempts, bad.losses) == (Status.FAILED, 3, 3)
    assert starts_of(worker, deadly) == [1, 2, 3]
    assert (bad.last_error or "").startswith("WorkerLost: worker w-")
    assert bad.failures == (3 if concurrency == 1 else 2)
    assert good.status is Status.SUCCEEDED
    assert (good.failures, good.losses <= 1) == (0, True)


async def test_b24_a_supervised_worker_keeps_at_most_once(
    shop: App, start: type[Command]
) -> None:
    async with shop:
        task = shop.tasks["poison"].options(max_attempts=1)
        deadly = known(await task.enqueue())
        behind = await shop.tasks["innocent"].enqueue()
        worker = start("worker", "shop:app", "--concurrency", "1")
        bad, good = await all_end(shop, [deadly, behind])
        await goes_on(shop, worker, deaths=1)

    assert (bad.status, bad.attempts, bad.losses) == (Status.FAILED, 1, 1)
    assert starts_of(worker, deadly) == [1]
    assert (good.status, good.attempts) == (Status.SUCCEEDED, 1)


@pytest.mark.parametrize("processes", [1, 2])
async def test_b25_nine_innocents_outlive_a_poison_beside_them_under_a_supervisor(
    shop: App, start: type[Command], scale: int, processes: int
) -> None:
    seconds = 0.5 if scale == 1 else 2.0
    async with shop:
        innocent, poison = shop.tasks["innocent"], shop.tasks["poison"]
        ids = await shop.enqueue_many(
            poison.job(after=seconds / 2) if n == 4 else innocent.job(seconds=seconds)
            for n in range(10)
        )
        worker = start(
            *("worker", "shop:app", "--processes", processes, "--concurrency", "10")
        )
        jobs = list(await all_end(shop, ids))
        bad = jobs.pop(4)
        if processes == 1:
            await goes_on(shop, worker, deaths=3)

    assert (bad.status, bad.attempts, bad.losses) == (Status.FAILED, 3, 3)
    assert starts_of(worker, bad.id) == [1, 2, 3]
    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert {job.failures for job in jobs} == {0}
    assert max(job.losses for job in jobs) == 1
    # It has tested something: they ran beside it when it struck first, and never again.
    assert sum(job.losses for job in jobs) >= (9 if processes == 1 else 1)
